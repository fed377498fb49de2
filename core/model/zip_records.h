/* model/zip_records.h: the storages of a zip, looked up by their key: PLACE + key (+ ".storage").
 *
 * torch.save and TorchScript write PREFIX/data/KEY and PREFIX/constants/KEY, torch.package PREFIX/.data/KEY.storage. A
 * deflated record is unpacked into the scratch file when a tensor asks for it. */
#ifndef CK_MODEL_ZIP_RECORDS_H
#define CK_MODEL_ZIP_RECORDS_H

#include "core/container/zip.h"
#include "core/model/rebuild.h"

struct ck_zip_records {
    const struct ck_zip *zip;   /* borrowed */
    struct ck_scratch *scratch; /* borrowed; NULL: deflated records are marked as such */
    struct ck_arena *arena;     /* borrowed: messages */
    const char *place;          /* borrowed: "archive/data/" */
    bool swap;                  /* big endian */
    struct ck_error failure;    /* code 0, or why the disk or a limit ended the unpacking: the whole file fails with it */
};

/* A ck_storage_find_fn; ctx is a struct ck_zip_records. What cannot be unpacked because it is damaged has the reason in
 * the storage's `unreadable`. */
bool ck_zip_records_find(void *ctx, const char *key, struct ck_storage *ret_storage);

/* What came of reading with these records: r, or if that is 0 the failure. */
int ck_zip_records_result(const struct ck_zip_records *records, int r, struct ck_error *err);

/* What is behind the last slash of a name. */
const char *ck_zip_last(const char *name);

/* Bytes of a name up to and with its last slash. */
size_t ck_zip_folder(const char *name);

/* True for data.pkl in any folder, however it is spelled: torch looks names up without regard to case. */
bool ck_zip_is_object(const struct ck_zip_entry *entry);

/* True for an entry that is called a pickle, or is stored and begins like one. */
bool ck_zip_is_pickle(const struct ck_zip *zip, const struct ck_zip_entry *entry);

/* The entry NAME beside another one, in the same folder. NULL if there is none. */
const struct ck_zip_entry *ck_zip_beside(const struct ck_zip *zip, const struct ck_zip_entry *entry,
                                         const char *name);

/* Reads the entry `byteorder` of a folder: the first n bytes of `folder`, its slash included. None means little endian.
 * Returns 0; CK_E_ARCHIVE_CORRUPT if it is neither little nor big; the errors of ck_zip_read(). */
int ck_zip_byteorder(const struct ck_zip *zip, const char *folder, size_t n, bool *ret_swap, struct ck_error *err);

#endif
