# Totals of "ctest -V": cmocka's own numbers, and one for a test that died without giving any.
function number(text) { match(text, /[0-9]+ test/); return substr(text, RSTART) + 0 }
/^[0-9]+: \[  PASSED  \]/ { passed += number($0); seen[$1 + 0] = 1 }
/^[0-9]+: \[  SKIPPED \] [0-9]+ test/ { skipped += number($0); seen[$1 + 0] = 1 }
/^[0-9]+: \[  FAILED  \] [0-9]+ test/ { failed += number($0); bad[$1 + 0] = 1 }
/^ *[0-9]+\/[0-9]+ Test +#/ {
    match($0, /#[0-9]+/); id = substr($0, RSTART + 1, RLENGTH - 1) + 0
    if ($0 ~ /\*\*\*Skipped/) skipped += !seen[id]
    else if ($0 ~ / Passed /) passed += !seen[id]
    else failed += !bad[id]
}
END { print passed + 0, failed + 0, skipped + 0 }
