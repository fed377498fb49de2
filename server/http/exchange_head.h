/* server/http/exchange_head.h: the head of a request: everything that can refuse it before its body is sent. */
#ifndef CK_SERVER_HTTP_EXCHANGE_HEAD_H
#define CK_SERVER_HTTP_EXCHANGE_HEAD_H

#include "server/http/exchange.h"

/* Fills route, params, key, terms and request; counts the request in where it needs a place in the queue. Returns 0 or the refusal, which is in
 * exchange->err. */
int ck_exchange_check_head(struct ck_exchange *exchange);

/* Whether there is room for the upload's announced length, and for what else is awaited. Asked again while a body of unknown length comes. Returns 0,
 * CK_E_STORAGE_FULL, CK_E_IO. */
int ck_exchange_check_room(struct ck_exchange *exchange);

/* Gives the place in the queue and the announced bytes back, if it has any. */
void ck_exchange_hand_back(struct ck_exchange *exchange);

#endif
