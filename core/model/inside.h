/* model/inside.h: a file inside the uploaded one, read as a model of its own: a member of an archive, what gzip compressed, a shard. */
#ifndef CK_MODEL_INSIDE_H
#define CK_MODEL_INSIDE_H

#include "core/model/model.h"

/* True if options ask for a member of an archive. options may be NULL, here and below. */
bool ck_inside_member_asked(const struct ck_model_options *options);

/* For a file that is no archive of files: CK_E_MEMBER_NOT_FOUND if a member is asked for, else 0. */
int ck_inside_refuse_member(const struct ck_model_options *options, struct ck_error *err);

/* CK_E_TENSOR_LIMIT naming --limit-nesting if no archive may be opened any more, else 0. */
int ck_inside_check_nesting(const struct ck_limits *limits, const struct ck_model_options *options, struct ck_error *err);

/* Puts the name of the file in which an error is before its message. */
void ck_inside_name_error(struct ck_error *err, const char *name);

/* Opens source as a model, one archive deeper. name: of the file, which is put before findings' entries ("m.pt > archive/data.pkl") and into the error's message;
 * "" if it has none. member: what the option member means inside of it, or NULL. As of ck_model_open(), *ret_part may be set
 * on failure, too. */
int ck_inside_open(const struct ck_source *source, const char *name, const char *member, const struct ck_limits *limits,
                   const struct ck_model_options *options, struct ck_model **ret_part, struct ck_error *err);

/* As ck_inside_open(), but what is read takes the place of *model, which keeps its findings and the size of the upload. */
int ck_inside_enter(struct ck_model *model, const struct ck_source *source, const char *name, const char *member,
                    const struct ck_limits *limits, const struct ck_model_options *options, struct ck_error *err);

#endif
