#include "api/blob_store.h"

#include <string.h>

void ck_digest_hex(const uint8_t digest[static CK_SHA256_BYTES], char ret_hex[static 65]) {
    static const char digits[] = "0123456789abcdef";

    for (size_t i = 0; i < CK_SHA256_BYTES; i++) {
        ret_hex[2 * i] = digits[digest[i] >> 4];
        ret_hex[2 * i + 1] = digits[digest[i] & 15];
    }
    ret_hex[64] = 0;
}

bool ck_digest_parse(const char *text, char ret_hex[static 65]) {
    static const char prefix[] = "sha256:";
    char hex[65];
    size_t n = 0;

    if (!text || strncmp(text, prefix, strlen(prefix)) != 0)
        return false;
    for (text += strlen(prefix); n < 64 && text[n]; n++) {
        char c = text[n];

        if (c >= 'A' && c <= 'F')
            c = (char)(c - 'A' + 'a');
        if (!((c >= '0' && c <= '9') || (c >= 'a' && c <= 'f')))
            return false;
        hex[n] = c;
    }
    if (n != 64 || text[n])
        return false;
    hex[n] = 0;
    memcpy(ret_hex, hex, sizeof(hex));
    return true;
}
