// Registry of Prometheus metrics (text format 0.0.4). Families are declared once in a table; a series is
// found by its label values and then updated with atomics. Any thread. The registry owns everything; series
// live as long as it.
#ifndef BASE_METRICS_H
#define BASE_METRICS_H

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

struct metrics;
struct metric; // a family
struct series; // one combination of label values

enum metric_type { METRIC_COUNTER, METRIC_GAUGE, METRIC_HISTOGRAM };

struct metric_def {
    const char *name;
    const char *help;
    enum metric_type type;
    const char *labels;    // "controller,result" or "" ; at most 6
    const double *buckets; // histograms: ascending upper bounds without +Inf; NULL: seconds 5 ms..60 s
    size_t bucket_count;
};

struct metrics *metrics_new(void);
void metrics_free(struct metrics *m);
// Registers (or finds) a family; `def` and its strings must outlive the registry.
struct metric *metrics_add(struct metrics *m, const struct metric_def *def);
// The series for these label values (as many as labels, NULL reads as ""); made on first use. Capped at
// 10,000 series a family: beyond that all share one series with label values "other".
struct series *metric_series(struct metric *f, ...); // const char * each, count fixed by the family
void metric_remove(struct metric *f,
                   const char *first_label_value); // drops the series whose first label is this

void series_inc(struct series *s);
void series_add(struct series *s, double v);
void series_set(struct series *s, double v);
void series_observe(struct series *s, double v);
double series_value(const struct series *s); // counter, gauge: value; histogram: count

// Called before each rendering, to set gauges whose truth is elsewhere.
void metrics_on_render(struct metrics *m, void (*fn)(void *ud), void *ud);
void metrics_render(struct metrics *m, struct buf *out);

#endif
