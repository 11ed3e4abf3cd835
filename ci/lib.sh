# Shared by the scripts of ci/: sourced, not run. Leaves the caller in the top of the tree.
set -u
TOP=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd) || exit 2
cd "$TOP" || exit 2
export LC_ALL=C.UTF-8
PATH=$PATH:/usr/sbin:/sbin

RED='' GREEN='' YELLOW='' BOLD='' PLAIN=''
if [ -t 1 ] && [ -z "${NO_COLOR:-}" ] && [ "${TERM:-dumb}" != dumb ]; then
    RED=$'\e[31m' GREEN=$'\e[32m' YELLOW=$'\e[33m' BOLD=$'\e[1m' PLAIN=$'\e[0m'
fi

say()
{
    printf '%s%s%s\n' "$BOLD" "$*" "$PLAIN"
}

die()
{
    printf '%s: %s\n' "${0##*/}" "$*" >&2
    exit 2
}

# Shows a command as a person would type it, then runs it.
show()
{
    printf '\n%s$ %s%s\n' "$BOLD" "$*" "$PLAIN"
    "$@"
}

is_root()
{
    [ "$(id -u)" -eq 0 ]
}

can_root()
{
    is_root || { command -v sudo >/dev/null && { [ -t 2 ] || sudo -n true 2>/dev/null; }; }
}

as_root()
{
    if is_root; then
        "$@"
    else
        sudo "$@"
    fi
}

# "debian-12", "ubuntu-24.04", …
distribution()
{
    (. /etc/os-release 2>/dev/null && echo "${ID:-unknown}-${VERSION_ID:-}") || echo unknown-
}

# packages_of GROUP…: the rows of ci/packages that this distribution needs.
packages_of()
{
    local group
    for group in "$@"; do
        awk -v group="$group" -v here="$(distribution)" \
            '$1 == group && ($3 == "" || $3 == here) { print $2 }' ci/packages
    done | sort -u
}

installed()
{
    [ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null)" = installed ]
}

# need_packages GROUP…: installs what is missing; does nothing when all is there.
need_packages()
{
    local package missing=()
    case $(distribution) in
    debian-12 | ubuntu-24.04) ;;
    *)
        if [ -n "${MESHNET_NO_INSTALL:-}" ]; then
            return 0
        fi
        die "this is $(distribution); packages are installed on debian-12 and ubuntu-24.04 only." \
            "Install what these are called here, then run again with MESHNET_NO_INSTALL=1:" \
            "$(packages_of "$@" | tr '\n' ' ')"
        ;;
    esac
    for package in $(packages_of "$@"); do
        installed "$package" || missing+=("$package")
    done
    [ ${#missing[@]} -gt 0 ] || return 0
    can_root || die "missing packages, and neither root nor sudo to install them:" \
        "apt-get install ${missing[*]}"
    say "Installing ${missing[*]}"
    as_root env DEBIAN_FRONTEND=noninteractive timeout 300 \
        apt-get -qq -o Acquire::Retries=3 update || die "apt-get update failed"
    as_root env DEBIAN_FRONTEND=noninteractive timeout 900 apt-get -qq -o Dpkg::Use-Pty=0 install \
        -y --no-install-recommends "${missing[@]}" >/dev/null || die "apt-get install failed"
}

# unpack ROOT INSTALLED PACKAGE…: packages and what they need into a folder, with lists and a cache of
# its own; nothing is installed. INSTALLED: dpkg's list of what need not come along. $UNPACK_CONF: more
# lines of apt's configuration. Does nothing when they are there; returns 1 when they cannot be had.
unpack()
{
    local root=$1 apt=$1-apt installed=$2 package stamp
    shift 2
    stamp="$(distribution) $*"
    [ "$(cat "$root/.packages" 2>/dev/null)" != "$stamp" ] || return 0
    rm -rf "$root"
    mkdir -p "$root" "$apt"/{lists/partial,cache/archives/partial} || return 1
    cat >"$apt/apt.conf" <<END
APT::Sandbox::User "root";
Dir::State "$apt";
Dir::State::lists "$apt/lists";
Dir::State::status "$installed";
Dir::Cache "$apt/cache";
Debug::NoLocking "true";
Acquire::Retries "3";
${UNPACK_CONF:-}
END
    APT_CONFIG=$apt/apt.conf timeout 120 apt-get -qq update ||
        echo "some package lists could not be read"
    APT_CONFIG=$apt/apt.conf timeout 300 apt-get -qq -y --no-install-recommends --download-only \
        install "$@" || return 1
    for package in "$apt"/cache/archives/*.deb; do
        [ ! -e "$package" ] || dpkg -x "$package" "$root" || return 1
    done
    rm -rf "$apt"
    echo "$stamp" >"$root/.packages"
    echo "unpacked: $*"
}

# build_preset NAME [CMAKE OPTION…]: the bounds are for one that has what others leave of the processors.
build_preset()
{
    local preset=$1
    shift
    timeout 900 cmake --preset "$preset" "$@" && timeout 3600 cmake --build "build/$preset"
}

# build_fuzzers FOLDER [CMAKE OPTION…]: the fuzzers and what they link, nothing else.
build_fuzzers()
{
    local folder=$1 targets=(tests/fuzz/fuzz_*.c)
    shift
    targets=("${targets[@]##*/}")
    timeout 900 cmake --preset fuzz -B "$folder" -DMESHNET_WERROR=OFF "$@" &&
        timeout 3600 cmake --build "$folder" --target "${targets[@]%.c}"
}

# fuzz_one PROGRAM SECONDS FOLDER: new inputs, and what fails, go to that folder, not into the tree's corpus.
# An input that takes a minute hangs, even beside others who have the processors first.
fuzz_one()
{
    local name=${1##*/}
    mkdir -p "$3/corpus/$name"
    timeout $(($2 + 120)) "$1" -max_total_time="$2" -timeout=60 -rss_limit_mb=2048 \
        -print_final_stats=1 -artifact_prefix="$3/$name-" \
        "$3/corpus/$name" "tests/fuzz/corpus/${name#fuzz_}"
}

# The newest glibc that a plugin may ask for: that of RHEL 9 and Ubuntu 22.04.
GLIBC=2.34

# beyond_libc LIBRARY: the libraries it asks the loader for that no container has to have.
beyond_libc()
{
    readelf -dW "$1" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' |
        grep -vE '^(lib(c|m|dl|pthread|rt)\.so\.[0-9]+|ld-linux.*\.so\.[0-9]+)$'
}

# newer_than GLIBC LIBRARY: what it asks of a newer glibc, as "SYMBOL VERSION"; "-" where it asks for
# the version alone.
newer_than()
{
    local version found
    for version in $(readelf -VW "$2" | grep -o 'Name: GLIBC_[A-Z0-9._]*' | sed 's/Name: //' | sort -u); do
        [[ $version =~ ^GLIBC_[0-9.]+$ ]] &&
            [ "$(printf '%s\n' "${version#GLIBC_}" "$1" | sort -V | tail -n 1)" = "$1" ] && continue
        found=$(nm -D --undefined-only "$2" | sed -n "s/.* \(.*\)@$version\$/\1/p")
        printf "%s $version\n" ${found:--}
    done
}
