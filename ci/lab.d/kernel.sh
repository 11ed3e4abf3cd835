# The guests' kernel and initramfs, made once and kept in $CACHE. Sourced by ci/lab.

# sch_netem and rdma_ucm are for those who use the lab, the others for the lab itself.
MODULES='virtio_pci virtio_console 9pnet_virtio 9p overlay virtio_net crc32_generic ipv6 ib_uverbs
    rdma_rxe rdma_ucm sch_netem sch_tbf'

# The packages that hold the distribution's kernel, in words for apt-get download.
kernel_packages()
{
    local meta=linux-image-amd64 image version
    case $(distribution) in
    ubuntu-*) meta=linux-image-generic ;;
    esac
    image=$(apt-cache depends "$meta" 2>/dev/null |
        awk '$1 == "Depends:" && $2 ~ /^linux-image-/ { print $2; exit }')
    [ -n "$image" ] || return 1
    version=${image#linux-image-}
    echo "$image"
    case $meta in
    linux-image-generic) printf '%s\n' "linux-modules-$version" "linux-modules-extra-$version" ;;
    esac
}

# fetch_kernel FOLDER: downloads and unpacks it there. In the background, so that a signal need not
# wait for the network.
fetch_kernel()
{
    local packages deb
    if ! packages=$(kernel_packages); then
        can_root && as_root timeout 300 apt-get -qq update
        packages=$(kernel_packages) || die "apt knows no kernel package here: apt-get update first"
    fi
    say "Fetching the nodes' kernel:" $packages >&2
    (cd "$1" && exec timeout 300 apt-get -qq -o APT::Sandbox::User=root -o Acquire::Retries=3 \
        download $packages) >&2 &
    FETCH=$!
    wait $FETCH || { if_caught; die "cannot download" $packages; }
    FETCH=''
    for deb in "$1"/*.deb; do
        dpkg-deb -x "$deb" "$1/unpacked" || die "cannot unpack ${deb##*/}"
    done
}

# number FILE OFFSET BYTES: little endian.
number()
{
    od -An -t "u$3" -j "$2" -N "$3" "$1" | tr -d ' '
}

# extract_kernel BZIMAGE OUT: takes the compressed kernel out of the boot image (offsets are those
# of the x86 boot protocol), because unpacking it under emulation costs each boot four seconds. A
# compression that is not known here leaves the image as it is: it boots, only slower.
extract_kernel()
{
    local sectors offset length unpack
    sectors=$(number "$1" 497 1) offset=$(number "$1" 584 4) length=$(number "$1" 588 4)
    payload()
    {
        tail -c +$(((sectors + 1) * 512 + offset + 1)) "$1" | head -c "$2"
    }
    # The last four bytes are the length of the unpacked kernel.
    for unpack in 'xz -dc' 'zstd -dc' 'gzip -dc'; do
        payload "$1" $((length - 4)) | $unpack >"$2" 2>/dev/null &&
            [ "$(head -c 4 "$2" | tail -c 3)" = ELF ] && return
    done
    cp "$1" "$2"
}

# copy_modules FROM TO: $MODULES and what they need, in the order to load them. What has no file is
# part of the kernel.
copy_modules()
{
    local file name
    local -A path=() seen=()
    while read -r file; do
        name=${file##*/}
        name=${name%%.ko*}
        path[${name//-/_}]=$file
    done < <(find "$1" -name '*.ko' -o -name '*.ko.xz' -o -name '*.ko.zst')
    add_module()
    {
        local module=${1//-/_} need file
        file=${path[$module]-}
        [ -n "$file" ] && [ -z "${seen[$module]-}" ] || return 0
        seen[$module]=1
        case $file in
        *.xz) xz -dc "$file" ;;
        *.zst) zstd -dc "$file" ;;
        *) cat "$file" ;;
        esac >"$2/$module.ko" || return
        for need in $(tr '\0' '\n' <"$2/$module.ko" | sed -n 's/^depends=//p' | tr , ' '); do
            add_module "$need" "$2" || return
        done
        echo "$module.ko" >>"$2/order"
    }
    [ -n "${path[rdma_rxe]-}" ] || die "this kernel has no rdma_rxe"
    for name in $MODULES; do
        add_module "$name" "$2" || die "cannot copy module $name"
    done
}

# Into $CACHE: kernel, and initrd with the modules and lab.d/init. Those who come while it is made
# wait; what is there and was made from the same text is kept.
make_kernel()
{
    local work image mark
    mark=$(cat ci/lab.d/init ci/lab.d/kernel.sh | sha256sum | cut -c 1-16)
    mkdir -p "$CACHE" || die "cannot make $CACHE"
    exec {LOCK}>"$CACHE/lock"
    flock -w 600 "$LOCK" || die "$CACHE/lock is held by another; waited 600 s"
    if [ ! -s "$CACHE/initrd" ] || [ "$(cat "$CACHE/mark" 2>/dev/null)" != "$mark" ]; then
        work=$(mktemp -d "$CACHE/new.XXXXXX") || die "cannot write in $CACHE"
        CLEAN+=("$work")
        fetch_kernel "$work"
        image=$(find "$work/unpacked/boot" -name 'vmlinuz-*' | head -n 1)
        [ -n "$image" ] || die "the kernel's package has no boot/vmlinuz-*"
        extract_kernel "$image" "$work/kernel"
        mkdir -p "$work"/tree/{bin,proc,sys,dev,root,memory,host,modules}
        copy_modules "$work/unpacked" "$work/tree/modules"
        cp "$(command -v busybox)" "$work/tree/bin/busybox"
        install -m 755 ci/lab.d/init "$work/tree/init"
        (cd "$work/tree" && find . | busybox cpio -o -H newc -R 0:0) >"$work/initrd" 2>/dev/null ||
            die "cannot make the initramfs"
        rm -f "$CACHE/mark"
        mv "$work/kernel" "$work/initrd" "$CACHE" && echo "$mark" >"$CACHE/mark" ||
            die "cannot write in $CACHE"
        rm -rf "$work"
    fi
    exec {LOCK}>&-
}
