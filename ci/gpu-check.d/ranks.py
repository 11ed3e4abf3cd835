"""For ci/gpu-check: "run" is a rank, "cable" one whose cables go and come back, "pulled" says how
that was; "table" compares two runs, "beside" shows what meshnet bench --engine found, "library"
names PyTorch's NCCL, "probe" says whether there is a GPU."""
import json
import os
import sys
import time
from datetime import timedelta

WARMUP, FEW, MANY = 3, 5, 50


def bytes_of(text):
    return int(text.rstrip("KM")) << {"K": 10, "M": 20}.get(text[-1], 0)


def sizes(most):
    size = 8
    while size <= most:
        yield size
        size *= 8 if size < 1 << 20 else 4


def operations(torch, dist, rank, ranks):
    """name, whether the size is that of all ranks' blocks, make(count) -> (call, result, expected)."""

    def pattern(count, who):
        return (torch.arange(count, device="cuda") % 13 + who).float()

    def whole(count):
        return torch.stack([pattern(count, r) for r in range(ranks)])

    def all_reduce(count):
        given, out = pattern(count, rank), torch.empty(count, device="cuda")

        def call():
            out.copy_(given)
            dist.all_reduce(out)

        return call, out, whole(count).sum(0)

    def reduce(count):
        given, out = pattern(count, rank), torch.empty(count, device="cuda")

        def call():
            out.copy_(given)
            dist.reduce(out, 0)

        return call, (out if rank == 0 else given), (whole(count).sum(0) if rank == 0 else given)

    def broadcast(count):
        out = torch.empty(count, device="cuda")

        def call():
            out.copy_(pattern(count, 0) if rank == 0 else torch.zeros_like(out))
            dist.broadcast(out, 0)

        return call, out, pattern(count, 0)

    def all_gather(count):
        given, out = pattern(count, rank), torch.empty(ranks * count, device="cuda")
        return lambda: dist.all_gather_into_tensor(out, given), out, whole(count).flatten()

    def reduce_scatter(count):
        given, out = pattern(ranks * count, rank), torch.empty(count, device="cuda")
        expected = whole(ranks * count).sum(0)[rank * count : (rank + 1) * count]
        return lambda: dist.reduce_scatter_tensor(out, given), out, expected

    def all_to_all(count):
        given, out = pattern(ranks * count, 100 * rank), torch.empty(ranks * count, device="cuda")
        expected = torch.cat([pattern(ranks * count, 100 * r)[rank * count : (rank + 1) * count]
                              for r in range(ranks)])
        return lambda: dist.all_to_all_single(out, given), out, expected

    def send_recv(count):
        given, out = pattern(count, rank), torch.empty(count, device="cuda")

        def call():
            pairs = [dist.P2POp(dist.isend, given, (rank + 1) % ranks),
                     dist.P2POp(dist.irecv, out, (rank - 1) % ranks)]
            for request in dist.batch_isend_irecv(pairs):
                request.wait()

        return call, out, pattern(count, (rank - 1) % ranks)

    return [("all_reduce", 0, all_reduce), ("reduce", 0, reduce), ("broadcast", 0, broadcast),
            ("all_gather", 1, all_gather), ("reduce_scatter", 1, reduce_scatter),
            ("all_to_all", 1, all_to_all), ("send_recv", 0, send_recv)]


def measure(torch, dist, call, iterations):
    for _ in range(WARMUP):
        call()
    torch.cuda.synchronize()
    dist.barrier()
    start = time.perf_counter()
    for _ in range(iterations):
        call()
    torch.cuda.synchronize()
    took = torch.tensor([(time.perf_counter() - start) / iterations * 1e6], device="cuda")
    dist.all_reduce(took, op=dist.ReduceOp.MAX)
    return took.item()


def meet():
    rank, ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    os.environ["NCCL_HOSTID"] = f"gpu-check-{rank}"  # before NCCL looks
    import torch
    import torch.distributed as dist

    torch.cuda.set_device(0)
    dist.init_process_group("nccl", timeout=timedelta(seconds=120))
    print(f"rank {rank} has met the others, NCCL begins", flush=True)  # ring.sh looks for it
    return torch, dist, rank, ranks


def write(path, value):
    with open(path + ".part", "w") as file:
        json.dump(value, file)
    os.rename(path + ".part", path)


def run(most, path):
    torch, dist, rank, ranks = meet()
    wrong, rows = 0, []
    for name, divided, make in operations(torch, dist, rank, ranks):
        for size in sizes(bytes_of(most)):
            count = size // 4 // (ranks if divided else 1)
            if not count:
                continue
            call, result, expected = make(count)
            us = measure(torch, dist, call, MANY if size <= 1 << 20 else FEW)
            bad = torch.tensor([int((result != expected).sum())], device="cuda")
            dist.all_reduce(bad)
            wrong += int(bad.item())
            rows.append({"op": name, "bytes": size, "us": us, "wrong": int(bad.item())})
            del call, result, expected
    if rank == 0:
        write(path, {"ranks": ranks, "nccl": torch.cuda.nccl.version(), "rows": rows})
        print(f"NCCL {torch.cuda.nccl.version()}, {len(rows)} measurements, {wrong} elements wrong")
    dist.destroy_process_group()
    return 1 if wrong else 0


def cable(seconds, path):
    """All-reduces of 16 MiB for so long, each compared; how long each took, in fifths of the time.
    PATH.begun is there once the first is done: what is pulled is pulled after it."""
    torch, dist, rank, ranks = meet()
    count, fifth = 4 << 20, float(seconds) / 5
    given = (torch.arange(count, device="cuda") % 13 + rank).float()
    expected = (torch.arange(count, device="cuda") % 13).float() * ranks + sum(range(ranks))
    # The last element tells all of them that the time is over.
    given[-1] = expected[-1] = 0
    out, over, wrong, took = torch.empty_like(given), False, 0, [[] for _ in range(5)]
    begin = 0
    while not over:
        start = time.perf_counter()
        if rank == 0 and begin and start - begin > 5 * fifth:
            given[-1] = 1
        out.copy_(given)
        dist.all_reduce(out)
        over = out[-1].item() != 0
        end = time.perf_counter()
        out[-1] = 0
        wrong += int((out != expected).sum().item())
        if begin:
            took[min(int((start - begin) / fifth), 4)].append((end - start) * 1e3)
        else:
            begin = end
            if rank == 0:
                write(path + ".begun", {})
    bad = torch.tensor([wrong], device="cuda")
    dist.all_reduce(bad)
    if rank == 0:
        write(path, {"seconds": 5 * fifth, "wrong": int(bad.item()), "fifths": [
            {"rounds": len(ms), "longest_ms": max(ms, default=0)} for ms in took]})
    dist.destroy_process_group()
    return 1 if bad.item() else 0


def pulled(*paths):
    """A row of each fifth, with the figures of each run."""
    runs = [json.load(open(path)) if os.path.exists(path) else None for path in paths]
    print(f"{'cables':24}" + "".join(f"{os.path.basename(path):>14} /s  longest ms" for path in paths))
    for i, what in enumerate(("both", "the second alone", "both", "the first alone", "both")):
        print(f"{what:24}" + "".join(
            f"{r['fifths'][i]['rounds'] / r['seconds'] * 5:17.1f}{r['fifths'][i]['longest_ms']:12.0f}"
            if r else f"{'-':>17}{'-':>12}" for r in runs))
    for path, r in zip(paths, runs):
        print(f"{os.path.basename(path)}: " + (f"{sum(f['rounds'] for f in r['fifths'])} all-reduces "
              f"of 16 MiB, {r['wrong']} elements wrong" if r else "came to no end"))
    return 0


def print_table(rows):
    """rows: (operation, bytes, microseconds over the plugin, over the sockets)."""
    print(f"{'operation':16}{'bytes':>12}{'plugin us':>13}{'sockets us':>13}{'ratio':>8}  target")
    for op, size, ours, theirs in rows:
        target = 1.2 if size >= 1 << 20 else 1.0
        met = "" if op != "all_reduce" else \
            f"  >= {target} {'met' if theirs / ours >= target else 'missed'}"
        print(f"{op:16}{size:12}{ours:13.1f}{theirs:13.1f}{theirs / ours:8.2f}{met}")


def table(ours, theirs):
    try:
        runs = [json.load(open(path)) for path in (ours, theirs)]
    except (OSError, ValueError) as error:
        print(f"no table: {error}")
        return 1
    other = {(row["op"], row["bytes"]): row["us"] for row in runs[1]["rows"]}
    print_table([(row["op"], row["bytes"], row["us"], other[row["op"], row["bytes"]])
                 for row in runs[0]["rows"]])
    return 0


def beside(path):
    try:
        results = json.load(open(path))
    except (OSError, ValueError) as error:
        print(f"no table: {error}")
        return 1
    networks = [engine["network"] for engine in results.get("engines", [])]
    for engine in results.get("engines", []):
        ways = ", ".join(f"{way['channels']} {way['transport']}" for way in engine["transports"])
        print(f"{engine['algorithm']}: NCCL {engine['version']}, network {engine['network']}, "
              f"plugin {engine['plugin']}, channels: {ways}")
    wrong = sum((row["wrong"] or 0) + (row["in_place_wrong"] or 0) for row in results["collectives"])
    print(f"{len(results['collectives'])} measurements, {wrong} elements wrong")
    print_table([(row["collective"], row["bytes"], row["mesh_us"], row["own_us"])
                 for row in results.get("beside", []) if row["mesh_us"]])
    if networks != ["Socket", "meshnet"]:
        print(f"these networks were used: {networks}")
        return 1
    return 1 if wrong or not results["complete"] else 0


def library():
    import torch

    torch.cuda.nccl.version()
    with open("/proc/self/maps") as maps:
        print(next((line.split()[-1] for line in maps if "libnccl.so" in line), "libnccl.so.2"))
    return 0


def probe():
    try:
        import torch
        import torch.distributed as dist
    except ImportError:
        return 1
    return 0 if torch.cuda.is_available() and dist.is_nccl_available() else 1


if __name__ == "__main__":
    words = {"run": run, "cable": cable, "pulled": pulled, "table": table, "beside": beside,
             "library": library, "probe": probe}
    sys.exit(words[sys.argv[1]](*sys.argv[2:]))
