/* Whose line of limits.conf counts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "fleet/doctor_ask.h"

static const struct mn_doctor_user worker = {.name = "worker",
                                             .uid = 1001,
                                             .groups = {{"worker", 1001}, {"rdma", 500}},
                                             .n_groups = 2};
static const struct mn_doctor_user root = {.name = "root", .groups = {{"root", 0}}, .n_groups = 1};

/* lines: "who type; …"; the numbers of those that count into text. */
static void counting(const char *lines, const struct mn_doctor_user *user, char *text, size_t size)
{
    cJSON *list = cJSON_CreateArray(), *line;
    char copy[256], *rest = NULL;
    int n = 0;

    snprintf(copy, sizeof copy, "%s", lines);
    for (char *at = strtok_r(copy, ";", &rest); at; at = strtok_r(NULL, ";", &rest)) {
        char who[64], type[16];

        assert_int_equal(sscanf(at, " %63s %15s", who, type), 2);
        cJSON_AddItemToArray(list, line = cJSON_CreateObject());
        cJSON_AddStringToObject(line, "who", who);
        cJSON_AddStringToObject(line, "type", type);
    }
    mn_doctor_limits_weigh(list, user);
    *text = '\0';
    cJSON_ArrayForEach(line, list)
    {
        n++;
        if (cJSON_IsTrue(cJSON_GetObjectItem(line, "counts")))
            snprintf(text + strlen(text), size - strlen(text), "%d ", n);
    }
    cJSON_Delete(list);
}

static void the_line_that_counts(void **state)
{
    static const struct {
        const char *lines, *count;
        const struct mn_doctor_user *user;
    } rows[] = {
        {"* -", "1 ", &worker},
        {"* soft; * hard", "1 2 ", &worker},
        {"* -; @rdma -", "2 ", &worker},
        {"@rdma -; * -", "1 ", &worker},
        {"@rdma soft; * -", "1 2 ", &worker}, /* everybody's hard one stands */
        {"worker -; @rdma -; * -", "1 ", &worker},
        {"* -; * -", "2 ", &worker},
        {"@other -; other -; * -", "3 ", &worker},
        {"1000:2000 -; @rdma -", "1 ", &worker},
        {"2000: -; :1000 -; @400:600 -", "3 ", &worker},
        {": -; @: -; @ -", "", &worker},
        {"* -; @root -; root soft", "3 ", &root},
        {"* -; @root -", "", &root},
    };
    char text[64];

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        counting(rows[i].lines, rows[i].user, text, sizeof text);
        assert_string_equal(text, rows[i].count);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_line_that_counts)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
