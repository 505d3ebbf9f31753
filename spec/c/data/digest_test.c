#include <string.h>

#include "unit.h"

#include "data/digest.h"

static void assert_hex(const uint8_t sum[DIGEST_SHA256_LEN], const char *hex)
{
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < DIGEST_SHA256_LEN; i++) {
        assert_int_equal(digits[sum[i] >> 4], hex[2 * i]);
        assert_int_equal(digits[sum[i] & 15], hex[2 * i + 1]);
    }
}

static void test_sha256(void **state)
{
    (void)state;
    char hex[DIGEST_SHA256_HEX];
    digest_sha256_hex("", 0, hex);
    assert_string_equal(hex, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    digest_sha256_hex(NULL, 0, hex);
    assert_string_equal(hex, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    digest_sha256_hex("abc", 3, hex);
    assert_string_equal(hex, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

static void test_hmac(void **state)
{
    (void)state;
    uint8_t sum[DIGEST_SHA256_LEN];
    digest_hmac_sha256("Jefe", 4, "what do ya want for nothing?", 28, sum); // RFC 4231, case 2
    assert_hex(sum, "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
    digest_hmac_sha256("", 0, "", 0, sum);
    assert_hex(sum, "b613679a0814d9ec772f95d778c35fc5ff1697c493715653c6c712144292c5ad");
    digest_hmac_sha256(NULL, 0, NULL, 0, sum); // not the key of the last call
    assert_hex(sum, "b613679a0814d9ec772f95d778c35fc5ff1697c493715653c6c712144292c5ad");
}

static void test_base64(void **state)
{
    (void)state;
    static const char *const rows[][2] = {{"", ""},
                                          {"f", "Zg=="},
                                          {"fo", "Zm8="},
                                          {"foo", "Zm9v"},
                                          {"foob", "Zm9vYg=="},
                                          {"fooba", "Zm9vYmE="},
                                          {"foobar", "Zm9vYmFy"},
                                          {"\xfb\xff\xfe", "+//+"}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct buf text, bytes;
        buf_init(&text, 100);
        buf_init(&bytes, 100);
        assert_int_equal(base64_encode(rows[i][0], strlen(rows[i][0]), &text), 0);
        assert_string_equal(text.data, rows[i][1]);
        assert_int_equal(base64_decode(rows[i][1], strlen(rows[i][1]), &bytes, NULL), 0);
        assert_int_equal(bytes.len, strlen(rows[i][0]));
        assert_memory_equal(bytes.data != NULL ? bytes.data : "", rows[i][0], bytes.len);
        buf_fini(&text);
        buf_fini(&bytes);
    }
}

static void test_base64_of_much(void **state)
{
    (void)state;
    static uint8_t data[100001];
    for (size_t i = 0; i < sizeof(data); i++)
        data[i] = (uint8_t)(i * 7 + i / 256);
    struct buf text, bytes;
    buf_init(&text, 1 << 20);
    buf_init(&bytes, sizeof(data));
    assert_int_equal(base64_encode(data, sizeof(data), &text), 0);
    assert_int_equal(text.len, (sizeof(data) + 2) / 3 * 4);
    assert_int_equal(base64_decode(text.data, text.len, &bytes, NULL), 0);
    assert_int_equal(bytes.len, sizeof(data));
    assert_memory_equal(bytes.data, data, sizeof(data));
    buf_fini(&text);
    buf_fini(&bytes);
    struct buf small;
    buf_init(&small, 10);
    assert_int_equal(base64_encode(data, sizeof(data), &small), -ERR_LIMIT);
    buf_fini(&small);
}

static void test_base64_white_space_and_faults(void **state)
{
    (void)state;
    struct buf b;
    buf_init(&b, 100);
    static const char wrapped[] = " Zm9v\r\n\tYmE=\n";
    assert_int_equal(base64_decode(wrapped, strlen(wrapped), &b, NULL), 0);
    assert_string_equal(b.data, "fooba");
    static const char *const bad[] = {"Z",    "Zg",    "Zg=",  "Zg==Zg==", "Zg===", "=",
                                      "Z===", "Zm9v=", "Zm-v", "Zm_v",     "Zm9v!", "Zg=a"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct err e;
        assert_int_equal(base64_decode(bad[i], strlen(bad[i]), &b, &e), -ERR_PARSE);
    }
    buf_fini(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sha256),
        cmocka_unit_test(test_hmac),
        cmocka_unit_test(test_base64),
        cmocka_unit_test(test_base64_of_much),
        cmocka_unit_test(test_base64_white_space_and_faults),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
