/* api/help.h: GET /: what this is and the one-liner, with the host that it was called by. Everything is listed from the tables. */
#ifndef CK_API_HELP_H
#define CK_API_HELP_H

#include "api/ports.h"

/* Text, or one page of HTML (no scripts, nothing loaded) where Accept prefers text/html. */
void ck_answer_help(struct ck_request *request, const struct ck_ports *ports, struct ck_reply *ret_reply);

#endif
