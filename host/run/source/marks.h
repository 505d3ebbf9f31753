// Names that tidelock leaves on objects: labels, annotations, field managers. Pure; any thread.
#ifndef RUN_SOURCE_MARKS_H
#define RUN_SOURCE_MARKS_H

#define MARKS_LABEL_SCRIPT "tidelock.dev/script"       // on children: the script's hash
#define MARKS_LABEL_OWNER "tidelock.dev/owner-uid"     // on children: the subject's UID
#define MARKS_LABEL_SCRIPTS "tidelock.dev/scripts"     // on ConfigMaps that hold scripts: "true"
#define MARKS_LABEL_INVENTORY "tidelock.dev/inventory" // on the host's own inventory ConfigMaps: "true"
#define MARKS_ANNOTATION_PAUSED "tidelock.dev/paused"  // on subjects and scripts ConfigMaps: "true"

#define MARKS_ANNOTATION_RETRY "tidelock.dev/retry" // on scripts ConfigMaps: another value ends a quarantine

#define MARKS_LABEL_KEEP "tidelock.dev/keep"   // on children: "true": neither pruned nor collected
#define MARKS_LABEL_ORDER "tidelock.dev/order" // on children that waited for others: how many, in a row

enum {
    MARKS_FINALIZER_MAX = 64,
    MARKS_HASH_MAX = 17,     // 16 hex digits
    MARKS_MANAGER_MAX = 129, // the API's limit is 128
};

// A script is (instance, namespace of its ConfigMap or "-" for files, name).
void marks_script_hash(char out[MARKS_HASH_MAX], const char *instance, const char *ns, const char *name);
// "tidelock-NAME-HASH": applies children and status.
void marks_manager(char out[MARKS_MANAGER_MAX], const char *name, const char *hash);
// "tidelock.dev/HASH": the script's finalizer on its subjects.
void marks_finalizer(char out[MARKS_FINALIZER_MAX], const char *hash);
// What stands for a subject in a manager's name.
void marks_subject_hash(char out[MARKS_HASH_MAX], const char *subject_uid);
// "tidelock-NAME-HASH-SUBJECT": patches, one manager a subject, so that each can be released alone.
void marks_patch_manager(char out[MARKS_MANAGER_MAX], const char *manager, const char *subject_uid);
// "tidelock.host-HASH": reports on subjects. Names of scripts have no dot, so that it is never one of theirs.
void marks_report_manager(char out[MARKS_MANAGER_MAX], const char *script_hash);

#endif
