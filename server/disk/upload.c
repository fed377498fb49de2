#include "server/disk/upload.h"

#include <errno.h>
#include <fcntl.h>

#include "server/disk/data_dir.h"

#define HASH_QUEUE_AT (1ull << 20) /* fewer new bytes are not worth a thread's turn, unless they are the last */
#define HASH_TURN     (8ull << 20) /* bytes of one upload before the next has its turn */
#define HASH_READ     (256u << 10)
#define WRITEBACK_AT  (8ull << 20)

/* Uploads that wait for a thread. */
struct line {
    pthread_mutex_t lock;
    pthread_cond_t wake;
    struct ck_upload_turn *first, *last;
    bool stopping;
};

struct ck_hasher {
    struct line hashing, writeback;
    pthread_t writer; /* one: the disk is the bound, and a disk that blocks it must not stop a digest */
    bool writer_runs;
    unsigned n_threads;
    pthread_t threads[];
};

static void unreference(struct ck_upload *upload) {
    if (atomic_fetch_sub(&upload->references, 1) != 1)
        return;
    EVP_MD_CTX_free(upload->sha);
    ck_data_dir_discard(upload->fd);
    pthread_mutex_destroy(&upload->lock);
    free(upload);
}

static void line_init(struct line *line) {
    pthread_mutex_init(&line->lock, NULL);
    pthread_cond_init(&line->wake, NULL);
}

static void line_release(struct line *line) {
    pthread_cond_destroy(&line->wake);
    pthread_mutex_destroy(&line->lock);
}

static void line_stop(struct line *line) {
    pthread_mutex_lock(&line->lock);
    line->stopping = true;
    pthread_cond_broadcast(&line->wake);
    pthread_mutex_unlock(&line->lock);
}

/* With the upload's lock held. */
static void push(struct line *line, struct ck_upload_turn *turn, struct ck_upload *upload) {
    atomic_fetch_add(&upload->references, 1);
    turn->queued = true;
    pthread_mutex_lock(&line->lock);
    turn->upload = upload;
    turn->next = NULL;
    if (line->last)
        line->last->next = turn;
    else
        line->first = turn;
    line->last = turn;
    pthread_cond_signal(&line->wake);
    pthread_mutex_unlock(&line->lock);
}

/* NULL when it was stopped and nothing is left. The reference is the caller's. */
static struct ck_upload *pop(struct line *line) {
    struct ck_upload_turn *turn;

    pthread_mutex_lock(&line->lock);
    while (!line->first && !line->stopping)
        pthread_cond_wait(&line->wake, &line->lock);
    turn = line->first;
    if (turn) {
        line->first = turn->next;
        if (!line->first)
            line->last = NULL;
    }
    pthread_mutex_unlock(&line->lock);
    return turn ? turn->upload : NULL;
}

/* With the upload's lock held. */
static void queue_if_worthwhile(struct ck_upload *upload) {
    bool worth = upload->written - upload->hashed >= HASH_QUEUE_AT || (upload->finished && !upload->digested);

    if (worth && !upload->hashing.queued && !upload->abandoned)
        push(&upload->hasher->hashing, &upload->hashing, upload);
}

/* With the upload's lock held. The rest, less than a turn, is left to the sync. */
static void write_back_if_worthwhile(struct ck_upload *upload) {
    bool worth = upload->write_back && upload->hashed - upload->written_back >= WRITEBACK_AT;

    if (worth && !upload->writeback.queued && !upload->abandoned)
        push(&upload->hasher->writeback, &upload->writeback, upload);
}

/* Hashes up to `end`. Only the thread that popped the upload touches its SHA state and `hashed`. */
static uint64_t hash_range(struct ck_upload *upload, uint64_t from, uint64_t end, uint8_t *buffer, int *ret_errno) {
    while (from < end) {
        ssize_t n = pread(upload->fd, buffer, CK_MIN((uint64_t)HASH_READ, end - from), (off_t)from);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) {
            *ret_errno = n < 0 ? errno : EIO;
            return end; /* the digest is void; the receiver must not wait for it */
        }
        EVP_DigestUpdate(upload->sha, buffer, (size_t)n);
        from += (uint64_t)n;
    }
    return from;
}

static void take_turn(struct ck_upload *upload, uint8_t *buffer) {
    uint64_t from, end, done;
    int read_errno = 0;

    pthread_mutex_lock(&upload->lock);
    from = upload->hashed;
    end = CK_MIN(upload->written, from + HASH_TURN);
    if (upload->abandoned)
        end = from;
    pthread_mutex_unlock(&upload->lock);

    done = hash_range(upload, from, end, buffer, &read_errno);

    pthread_mutex_lock(&upload->lock);
    upload->hashing.queued = false;
    upload->hashed = done;
    if (read_errno)
        upload->read_error = read_errno;
    if (upload->finished && upload->hashed == upload->written && !upload->digested) {
        upload->digested = true;
        if (EVP_DigestFinal_ex(upload->sha, upload->digest, NULL) != 1)
            upload->read_error = EIO;
        if (!upload->abandoned)
            upload->ready(upload->ctx, true);
    } else if (upload->throttled && upload->written - upload->hashed < CK_UPLOAD_LAG_MAX / 2) {
        upload->throttled = false;
        if (!upload->abandoned)
            upload->ready(upload->ctx, false);
    }
    queue_if_worthwhile(upload);
    write_back_if_worthwhile(upload);
    pthread_mutex_unlock(&upload->lock);
    unreference(upload);
}

/* Asks the kernel to begin writing what was hashed, and waits for nothing but room in the disk's queue. */
static void take_writeback_turn(struct ck_upload *upload) {
    uint64_t from, end;

    pthread_mutex_lock(&upload->lock);
    from = upload->written_back;
    end = upload->abandoned ? from : upload->hashed;
    pthread_mutex_unlock(&upload->lock);

    /* A failure is the sync's to report. */
    if (end > from)
        (void)sync_file_range(upload->fd, (off_t)from, (off_t)(end - from), SYNC_FILE_RANGE_WRITE);

    pthread_mutex_lock(&upload->lock);
    upload->writeback.queued = false;
    upload->written_back = end;
    write_back_if_worthwhile(upload);
    pthread_mutex_unlock(&upload->lock);
    unreference(upload);
}

static void *hasher_main(void *ctx) {
    struct ck_hasher *hasher = ctx;
    _cleanup_(ck_freep) uint8_t *buffer = malloc(HASH_READ);
    struct ck_upload *upload;

    while (buffer && (upload = pop(&hasher->hashing)) != NULL)
        take_turn(upload, buffer);
    return NULL;
}

static void *writer_main(void *ctx) {
    struct ck_hasher *hasher = ctx;
    struct ck_upload *upload;

    while ((upload = pop(&hasher->writeback)) != NULL)
        take_writeback_turn(upload);
    return NULL;
}

int ck_hasher_new(unsigned threads, struct ck_hasher **ret_hasher, struct ck_error *err) {
    struct ck_hasher *hasher = calloc(1, sizeof(*hasher) + threads * sizeof(pthread_t));
    int r;

    if (!hasher)
        return ck_error_set(err, CK_E_OUT_OF_MEMORY, NULL, "out of memory");
    line_init(&hasher->hashing);
    line_init(&hasher->writeback);
    r = pthread_create(&hasher->writer, NULL, writer_main, hasher);
    hasher->writer_runs = r == 0;
    for (; hasher->n_threads < threads && r == 0; hasher->n_threads += r == 0)
        r = pthread_create(&hasher->threads[hasher->n_threads], NULL, hasher_main, hasher);
    if (r != 0) {
        ck_hasher_free(hasher);
        return ck_error_set_errno(err, r, NULL, "start the threads that take digests");
    }
    *ret_hasher = hasher;
    return 0;
}

void ck_hasher_free(struct ck_hasher *hasher) {
    if (!hasher)
        return;
    line_stop(&hasher->hashing);
    for (unsigned i = 0; i < hasher->n_threads; i++)
        pthread_join(hasher->threads[i], NULL);
    line_stop(&hasher->writeback);
    if (hasher->writer_runs)
        pthread_join(hasher->writer, NULL);
    line_release(&hasher->hashing);
    line_release(&hasher->writeback);
    free(hasher);
}

int ck_upload_new(struct ck_hasher *hasher, int fd, void (*ready)(void *ctx, bool digested), void *ctx,
                  struct ck_upload **ret_upload, struct ck_error *err) {
    struct ck_upload *upload = calloc(1, sizeof(*upload));
    EVP_MD_CTX *sha = EVP_MD_CTX_new();

    if (!upload || !sha || EVP_DigestInit_ex(sha, EVP_sha256(), NULL) != 1) {
        free(upload);
        EVP_MD_CTX_free(sha);
        return ck_error_set(err, CK_E_OUT_OF_MEMORY, NULL, "out of memory");
    }
    upload->fd = fd;
    upload->hasher = hasher;
    upload->ready = ready;
    upload->ctx = ctx;
    upload->sha = sha;
    atomic_init(&upload->references, 1);
    pthread_mutex_init(&upload->lock, NULL);
    *ret_upload = upload;
    return 0;
}

void ck_upload_set_writeback(struct ck_upload *upload, bool on) {
    pthread_mutex_lock(&upload->lock);
    upload->write_back = on;
    pthread_mutex_unlock(&upload->lock);
}

int ck_upload_write(struct ck_upload *upload, const void *bytes, size_t n, struct ck_error *err) {
    const char *at = bytes;
    uint64_t offset = upload->written; /* changed by this thread alone */

    while (n > 0) {
        ssize_t done = pwrite(upload->fd, at, n, (off_t)offset);

        if (done < 0 && errno == EINTR)
            continue;
        if (done < 0)
            return ck_error_set_errno(err, errno, NULL, "write the upload");
        at += done;
        offset += (uint64_t)done;
        n -= (size_t)done;
    }
    pthread_mutex_lock(&upload->lock);
    upload->written = offset;
    queue_if_worthwhile(upload);
    pthread_mutex_unlock(&upload->lock);
    return 0;
}

bool ck_upload_throttle(struct ck_upload *upload, bool (*suspend)(void *ctx)) {
    bool suspended = false;

    pthread_mutex_lock(&upload->lock);
    if (upload->written - upload->hashed > CK_UPLOAD_LAG_MAX)
        suspended = upload->throttled = suspend(upload->ctx);
    pthread_mutex_unlock(&upload->lock);
    return suspended;
}

bool ck_upload_finish(struct ck_upload *upload, bool (*suspend)(void *ctx)) {
    bool suspended;

    pthread_mutex_lock(&upload->lock);
    suspended = suspend(upload->ctx);
    if (suspended) {
        upload->finished = true;
        queue_if_worthwhile(upload);
    }
    pthread_mutex_unlock(&upload->lock);
    return suspended;
}

void ck_upload_abandon(struct ck_upload *upload) {
    if (!upload)
        return;
    pthread_mutex_lock(&upload->lock);
    upload->abandoned = true;
    pthread_mutex_unlock(&upload->lock);
    unreference(upload);
}
