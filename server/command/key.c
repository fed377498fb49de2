/* ckptd key NAME: a new key for a client, and the line for the file of --keys-file. Nothing is stored. The line alone
 * goes to stdout, so that `ckptd key NAME >> FILE` never writes the key itself. */
#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "server/command/commands.h"
#include "server/keys.h"

#define PREFIX "ckptd_"

static const char usage[] =
    "Usage: ckptd key NAME [--scopes SCOPE,...]\n\n"
    "Prints a new random key for the client on stderr, and on stdout the line for the file that\n"
    "--keys-file names: ckptd key alice >> keys. Nothing is stored: the line holds the key's\n"
    "SHA-256 only. Without --scopes the key may do everything. A running daemon reads its file\n"
    "again on SIGHUP.\n\n";

static void print_usage(FILE *out) {
    fputs(usage, out);
#define X(name, what) fprintf(out, "  %-10s%s\n", #name, what);
    CK_SCOPES(X)
#undef X
}

static void hex(const uint8_t *bytes, size_t n, char *text) {
    for (size_t i = 0; i < n; i++)
        snprintf(text + 2 * i, 3, "%02x", bytes[i]);
}

static int make_key(const char *name, const char *scopes) {
    char key[sizeof(PREFIX) + 64] = PREFIX, digest_text[65];
    uint8_t random[32], digest[32];

    if (getrandom(random, sizeof(random), 0) != (ssize_t)sizeof(random)) {
        perror("ckptd key: cannot get random bytes");
        return 1;
    }
    hex(random, sizeof(random), key + sizeof(PREFIX) - 1);
    if (EVP_Digest(key, strlen(key), digest, NULL, EVP_sha256(), NULL) != 1) {
        fprintf(stderr, "ckptd key: cannot take a SHA-256\n");
        return 1;
    }
    hex(digest, sizeof(digest), digest_text);
    fprintf(stderr, "key for %s, shown once: %s\n", name, key);
    printf("%s %s%s%s\n", name, digest_text, scopes ? " " : "", scopes ? scopes : "");
    return fflush(stdout) == 0 ? 0 : 1;
}

static int refuse(const char *what, const char *word) {
    fprintf(stderr, "ckptd key: %s \"%.100s\"; ckptd key --help says more\n", what, word);
    return CK_EXIT_USAGE;
}

int ck_cmd_key(int argc, char **argv) {
    const char *name = NULL, *scopes = NULL, *wrong = NULL;
    unsigned bits;

    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
            print_usage(stdout);
            return 0;
        }
        if (strncmp(argv[i], "--scopes=", 9) == 0)
            scopes = argv[i] + 9;
        else if (strcmp(argv[i], "--scopes") == 0 && i + 1 < argc)
            scopes = argv[++i];
        else if (argv[i][0] != '-' && !name)
            name = argv[i];
        else
            return refuse("unexpected argument", argv[i]);
    }
    if (!name) {
        print_usage(stderr);
        return CK_EXIT_USAGE;
    }
    if (!ck_key_name_is_valid(name))
        return refuse("a name is 1 to 64 of A-Z a-z 0-9 . _ -, not", name);
    if (scopes && !ck_scopes_parse(scopes, &bits, &wrong))
        return refuse("unknown scope", wrong);
    return make_key(name, scopes);
}
