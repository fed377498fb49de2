/* container/gzip.h: unpacking a file that gzip compressed, of one member or of several one after another.
 *
 * zlib inflates and checks the CRC and the length behind each member. Source: RFC 1952; what gzip itself does with bytes
 * behind the last member (zeros are passed over, the rest is told and not read) is in its manual, "Tapes". */
#ifndef CK_CONTAINER_GZIP_H
#define CK_CONTAINER_GZIP_H

#include "core/base/limits.h"
#include "core/base/scratch.h"
#include "core/pickle/finding.h"

/* Below this, what is unpacked may have any ratio. */
#define CK_UNPACKED_RATIO_BELOW (64 * CK_MIB)

/* True if `unpacked` bytes are more than `packed` ones may come to: above limits.unpacked_ratio and the bound before. */
bool ck_unpacks_too_far(uint64_t packed, uint64_t unpacked, const struct ck_limits *limits);

/* Unpacks the whole of source into the scratch file, in windows of 256 KiB; *ret_bytes is a part of that. Bytes behind the last member
 * become a finding (class structure). Returns 0; CK_E_ARCHIVE_CORRUPT (says where; a wrong CRC or length, too); CK_E_TRUNCATED;
 * CK_E_TENSOR_LIMIT naming the setting (unpacked_bytes, unpacked_ratio); CK_E_STORAGE_FULL; CK_E_IO; CK_E_OUT_OF_MEMORY.
 * After an error the scratch file is as long as before. */
int ck_gzip_unpack(const struct ck_source *source, const struct ck_limits *limits, struct ck_findings *findings,
                   struct ck_scratch *scratch, struct ck_source *ret_bytes, struct ck_error *err);

#endif
