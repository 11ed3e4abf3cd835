# shellcheck shell=bash
# Loaded by tests that have results of meshnet bench --json.

SCHEMA=$BATS_TEST_DIRNAME/../docs/results.schema.json

# valid FILE…: says of each what is not as the schema has it.
valid()
{
    python3 - "$SCHEMA" "$@" <<'PYTHON'
import json, sys
from jsonschema import Draft202012Validator

schema = json.load(open(sys.argv[1]))
Draft202012Validator.check_schema(schema)
bad = 0
for path in sys.argv[2:]:
    for error in Draft202012Validator(schema).iter_errors(json.load(open(path))):
        print(path, "/".join(map(str, error.absolute_path)), error.message[:300])
        bad = 1
sys.exit(bad)
PYTHON
}
