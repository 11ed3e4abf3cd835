/* Between the files that read a survey's cabling. */
#ifndef MN_CABLING_IMPL_H
#define MN_CABLING_IMPL_H

#include "topo/cabling.h"

/* 1 when the stranger, an index in the survey, who was heard at one of two ports that hear each
 * other is something between them; 0: what is at one end of their cable. */
int mn_stranger_between(const struct mn_cabling *cabling, int stranger, const int ports[2]);

#endif
