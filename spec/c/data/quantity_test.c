#include <string.h>

#include "unit.h"

#include "data/quantity.h"

struct row {
    const char *given;
    const char *stored;
};

static void test_canonical(void **state)
{
    (void)state;
    static const struct row rows[] = {
        {"1000m", "1"},
        {"1", "1"},
        {"1.0", "1"},
        {" 1", "1"},
        {"1 ", "1"},
        {"0.5", "500m"},
        {".5", "500m"},
        {"5.", "5."},
        {"+1", "+1"},
        {"1e-3", "1e-3"},
        {"2048Mi", "2Gi"},
        {"1024Ki", "1Mi"},
        {"1.5Gi", "1536Mi"},
        {"1000", "1k"},
        {"1500", "1500"},
        {"1024", "1024"},
        {"1e3", "1e3"},
        {"1E3", "1E3"},
        {"12E", "12E"},
        {"9223372036854775808", "9223372036854775808"},
        {"0", "0"},
        {"00", "0"},
        {"+0", "0"},
        {"-0", "0"},
        {"0Ki", "0"},
        {"0.0", "0"},
        {"-1", "-1"},
        {"-1000m", "-1"},
        {"1001m", "1001m"},
        {"100u", "100u"},
        {"0.1m", "100u"},
        {"1n", "1n"},
        {"0.9n", "1n"},
        {"0.1n", "1n"},
        {"-0.1n", "-1n"},
        {"1.1n", "2n"},
        {"0.0000000001", "1n"},
        {"1e-100", "1e-9"},
        {"8Ei", "9223372036854775807"},
        {"100Ei", "9223372036854775807"},
        {"7Ei", "7Ei"},
        {"0.5Ki", "512"},
        {"1.5Ki", "1536"},
        {"0.1Ki", "102400m"},
        {"0.0005Ki", "512m"},
        {"1000k", "1M"},
        {"1000E", "1e21"},
        {"1000000e3", "1e9"},
        {"123456789012345678901", "123456789012345678901"},
        {"010", "010"},
        {"1e4", "10e3"},
        {"1028Ki", "1028Ki"},
        {"-2048Mi", "-2Gi"},
        {"1.2345", "1234500u"},
        {"999999999999999999", "999999999999999999"},
        {"1000000000000000000", "1E"},
        {"1e+3", "1e+3"},
        {"0.1e1", "1"},
        {"8Mi", "8Mi"},
        {"1099511627776Ki", "1Pi"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char out[QUANTITY_TEXT_MAX];
        struct err e;
        if (quantity_canonical(rows[i].given, out, &e) < 0)
            fail_msg("%s", e.text);
        if (strcmp(out, rows[i].stored) != 0)
            fail_msg("%s became %s, not %s", rows[i].given, out, rows[i].stored);
        assert_true(quantity_valid(rows[i].given));
        assert_int_equal(quantity_compare(rows[i].given, out), 0);
    }
}

static void test_canonical_in_lists_of_resources(void **state)
{
    (void)state;
    static const struct row rows[] = {
        {"0.1m", "1m"},     {"100u", "1m"},       {"1n", "1m"},           {"1500u", "2m"},  {"-100u", "-1m"},
        {"1001m", "1001m"}, {"5.", "5."},         {"+1", "+1"},           {"1e-3", "1e-3"}, {"1e-4", "1e-3"},
        {"2Gi", "2Gi"},     {"0.0005Ki", "512m"}, {"1.0000001", "1001m"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char out[QUANTITY_TEXT_MAX];
        assert_int_equal(quantity_canonical_milli(rows[i].given, out, NULL), 0);
        assert_string_equal(out, rows[i].stored);
    }
}

static void test_invalid(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "",
        "1gi",
        "1_000",
        "1 Gi",
        "0x10",
        " ",
        ".",
        "-",
        "+",
        "m",
        "Ki",
        "1.1.M",
        "1+1.0M",
        "0.1mi",
        "0.1am",
        "aoeu",
        ".5i",
        "1i",
        "-3.01i",
        "-3.01e-",
        "1e",
        "1e3.5",
        "1e3m",
        "--1",
        "1,5",
        "1Ki5",
        "e3",
        "1e99999999999",
        "NaN",
        "Inf",
        "1K",
        "1mm",
        "1234567890123456789012345678901234567890123456789012345678901234567890"};
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        char out[QUANTITY_TEXT_MAX] = "untouched";
        struct err e;
        if (quantity_valid(texts[i]))
            fail_msg("%s", texts[i]);
        assert_int_equal(quantity_canonical(texts[i], out, &e), -ERR_PARSE);
        assert_string_equal(out, "untouched");
    }
}

static void test_compare(void **state)
{
    (void)state;
    static const struct {
        const char *a;
        const char *b;
        int r;
    } rows[] = {
        {"1", "1001m", -1},
        {"1", "1000m", 0},
        {"2Gi", "2G", 1},
        {"1Ki", "1024", 0},
        {"1e3", "1k", 0},
        {"1E", "1e18", 0},
        {"1Ei", "1E", 1},
        {"-1", "1", -1},
        {"-2", "-1", -1},
        {"0", "-0", 0},
        {"0", "1n", -1},
        {"-1n", "0", -1},
        {"0.1n", "1n", 0},
        {"0.1n", "0", 1},
        {"9223372036854775807", "9223372036854775808", -1},
        {"8Ei", "9223372036854775807", 0},
        {"1e1000000000", "1e999999999", 1},
        {"1e2000000000", "9Ei", 1},
        {"1e-2000000000", "1n", 0},
        {"0.3", "300m", 0},
        {"1.000000000000000001", "1.000000001", 0},
        {"10", "9", 1},
        {"100", "99.999999999", 1},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        if (quantity_compare(rows[i].a, rows[i].b) != rows[i].r ||
            quantity_compare(rows[i].b, rows[i].a) != -rows[i].r)
            fail_msg("%s and %s", rows[i].a, rows[i].b);
    }
}

static void test_whole_numbers(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint64_t n;
        const char *written;
    } rows[] = {
        {"0", 0, "0"},
        {"16Mi", 16 << 20, "16Mi"},
        {"16384Ki", 16 << 20, "16Mi"},
        {"1k", 1000, "1000"},
        {"1500m", 0, NULL},
        {"2000m", 2, "2"},
        {"-1", 0, NULL},
        {"-0", 0, "0"},
        {"1.5Ki", 1536, "1536"},
        {"16MB", 0, NULL},
        {"", 0, NULL},
        {"1536Mi", 1536ull << 20, "1536Mi"},
        {"8Ei", INT64_MAX, "9223372036854775807"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        uint64_t n = 77;
        char text[QUANTITY_TEXT_MAX];
        assert_int_equal(quantity_whole(rows[i].text, &n), rows[i].written != NULL ? 0 : -ERR_PARSE);
        assert_int_equal(n, rows[i].written != NULL ? rows[i].n : 77);
        if (rows[i].written == NULL)
            continue;
        quantity_format(text, n);
        assert_string_equal(text, rows[i].written);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_canonical),     cmocka_unit_test(test_canonical_in_lists_of_resources),
        cmocka_unit_test(test_invalid),       cmocka_unit_test(test_compare),
        cmocka_unit_test(test_whole_numbers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
