// Children that are being created: two keys that want the same one are told before either has written it. A
// claim lives from before the creation until the child's store has shown it; from then on its owner label
// tells. Loop thread.
#ifndef RUN_APPLY_CLAIMS_H
#define RUN_APPLY_CLAIMS_H

#include "kube/gvk.h"

struct claims;

struct claims *claims_new(void);
void claims_free(struct claims *c);
// NULL: it is yours (uid's) now. Otherwise the description of who has it ("subject default/a of script
// memcached"), borrowed.
const char *claims_take(struct claims *c, const struct gvk *gvk, const char *ns, const char *name,
                        const char *uid, const char *who);
void claims_release(struct claims *c, const struct gvk *gvk, const char *ns, const char *name,
                    const char *uid);

#endif
