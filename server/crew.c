#include "server/crew.h"

#include <pthread.h>

struct ck_crew {
    pthread_mutex_t lock;
    pthread_cond_t wake;
    struct ck_errand *first, *last;
    bool stopping;
    unsigned n_threads;
    pthread_t threads[];
};

static struct ck_errand *pop(struct ck_crew *crew) {
    struct ck_errand *errand;

    pthread_mutex_lock(&crew->lock);
    while (!crew->first && !crew->stopping)
        pthread_cond_wait(&crew->wake, &crew->lock);
    errand = crew->first;
    if (errand) {
        crew->first = errand->next;
        if (!crew->first)
            crew->last = NULL;
    }
    pthread_mutex_unlock(&crew->lock);
    return errand;
}

static void *crew_main(void *ctx) {
    struct ck_crew *crew = ctx;
    struct ck_errand *errand;

    while ((errand = pop(crew)) != NULL)
        errand->run(errand->ctx);
    return NULL;
}

int ck_crew_new(unsigned threads, struct ck_crew **ret_crew, struct ck_error *err) {
    struct ck_crew *crew = calloc(1, sizeof(*crew) + threads * sizeof(pthread_t));
    int r = 0;

    if (!crew)
        return ck_error_set(err, CK_E_OUT_OF_MEMORY, NULL, "out of memory");
    pthread_mutex_init(&crew->lock, NULL);
    pthread_cond_init(&crew->wake, NULL);
    for (; crew->n_threads < threads && r == 0; crew->n_threads += r == 0)
        r = pthread_create(&crew->threads[crew->n_threads], NULL, crew_main, crew);
    if (r != 0) {
        ck_crew_free(crew);
        return ck_error_set_errno(err, r, NULL, "start the threads that use the store");
    }
    *ret_crew = crew;
    return 0;
}

void ck_crew_post(struct ck_crew *crew, struct ck_errand *errand) {
    errand->next = NULL;
    pthread_mutex_lock(&crew->lock);
    if (crew->last)
        crew->last->next = errand;
    else
        crew->first = errand;
    crew->last = errand;
    pthread_cond_signal(&crew->wake);
    pthread_mutex_unlock(&crew->lock);
}

void ck_crew_free(struct ck_crew *crew) {
    if (!crew)
        return;
    pthread_mutex_lock(&crew->lock);
    crew->stopping = true;
    pthread_cond_broadcast(&crew->wake);
    pthread_mutex_unlock(&crew->lock);
    for (unsigned i = 0; i < crew->n_threads; i++)
        pthread_join(crew->threads[i], NULL);
    pthread_cond_destroy(&crew->wake);
    pthread_mutex_destroy(&crew->lock);
    free(crew);
}
