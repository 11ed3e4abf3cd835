/* What the files of the device family share. */
#ifndef MN_CHECK_DEVICE_H
#define MN_CHECK_DEVICE_H

#include "bench/check/rule.h"

/* Fails the rule when getProperties does. */
void mn_device_read(struct mn_check *check, int dev, struct mn_raw_props *props);

/* Rules: device_same.c */
void mn_device_stable(struct mn_check *check);
void mn_device_concurrent(struct mn_check *check);
void mn_device_consistent(struct mn_check *check);
/* device_agrees.c */
void mn_device_agrees(struct mn_check *check);

#endif
