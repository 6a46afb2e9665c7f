"""results/*.json of schema 1 -> schema 2; originals to results/archive/."""
import json, re, sys, shutil
from pathlib import Path
sys.path.insert(0, ".")
from fairseq_linformer.reproduction.records import Record, Measurement, write, read

RES = Path("results"); ARCH = RES / "archive"
CONTEXT = {"projections-dimension": "figure-3a", "projections-sharing": "figure-3c", "projections-longer": "figure-3d",
  "real-text-pretraining-n64": "scratch", "real-text-pretraining-n512": "warm-start", "projections-cold": "warm-start",
  "projections-kinds": "projections", "projections-starts": "starts", "projections-closing": "starts"}
BENCH = {"inference": "table-3", "scaling": "table-1", "pertoken": "figure-2"}

def group(name):
    *parts, what = name.split("; ")
    return dict(p.split(" = ", 1) for p in parts), what

def places(d, name, m):
    """-> metric, dict"""
    ident = d["identifier"]; c = d["configuration"]; unit = m["unit"]
    F = re.fullmatch
    if ident.startswith(("theorem", "optimal", "spectrum")):
        w, what = group(name)
        out = {}
        if "heads" in w: out["source"] = w["heads"]
        if "run" in w: out["source"] = w["run"]
        for k in ("n", "k", "layer"):
            if k in w: out[k] = int(w[k])
        if "d" in w: out["head_dim"] = int(w["d"])
        if "head" in w and w["head"] != "all": out["head"] = int(w["head"])
        if "eps" in w: out["epsilon"] = float(w["eps"])
        for k, to in (("delta", "delta"), ("X", "approximation"), ("S", "approximation"), ("matrix", "matrix"), ("model", "model")):
            if k in w: out[to] = w[k]
        known = {"cumulative value at the index": "cumulative_share", "its standard deviation": "cumulative_share_deviation",
          "k for 0.9 of the values": "k_for_90_percent", "k for 0.9 of the squares": "k_for_90_percent_of_squares",
          "perplexity on held-out text": "perplexity", "singular values": "num_singular_values"}
        metric = known.get(what) or re.sub(r"[^a-z0-9]+", "_", what.replace(": share that exists", " share").lower())
        return metric, out
    if ident.startswith("parameters"):
        a, b = name.split(": ")
        return b.replace(" ", "_"), ({"model": a} if a == "roberta" else {"sharing": a})
    if ident.startswith("operations"):
        a = F(r"n=(\d+): (\w+)", name); return "operations_per_token", {"n": int(a[1]), "model": a[2]}
    if ident.startswith("finetuning"):
        split, metric = name.split(" "); mod = c["model"]; out = {"split": split, "task": c["task"], "n": int(mod["max_positions"])}
        if mod["projected_dim"]: out |= {"k": int(mod["projected_dim"]), "sharing": mod["sharing"]}
        return metric, out
    if ident.startswith("benchmark-"):
        kind = ident.split("-")[1]
        if kind == "inference":
            if a := F(r"n=(\d+): seconds of (.+)", name):
                out = {"n": int(a[1])}
                out |= {"model": "linformer", "k": int(a[2][2:])} if a[2].startswith("k=") else {"model": a[2]}
                return "seconds", out
            a = F(r"n=(\d+) k=(\d+): (\w+) / linformer(, largest batch|, bytes a sentence)?", name)
            return {None: "time_ratio", ", largest batch": "batch_ratio", ", bytes a sentence": "bytes_ratio"}[a[4]], {"model": "linformer", "baseline": a[3], "n": int(a[1]), "k": int(a[2])}
        if kind == "scaling":
            if a := F(r"n=(\d+): (.+)", name): return "microseconds_per_token", {"model": a[2], "n": int(a[1])}
            a = F(r"(.+): exponent( of the longer half)?", name)
            return "exponent" + "_longer_half" * bool(a[2]), {"model": a[1]}
        if kind == "pertoken":
            a = F(r"n=(\d+) / n=(\d+)", name); return "time_per_token_ratio", {"model": "linformer", "n": int(a[1]), "baseline_n": int(a[2])}
        if kind == "whole":
            if a := F(r"n=(\d+): seconds of (.+)", name): return "seconds", {"n": int(a[1]), "model": a[2]}
            a = F(r"n=(\d+): (.+) / ours", name); return "time_ratio", {"n": int(a[1]), "model": "ours", "baseline": a[2]}
        if kind == "training":
            a = F(r"(pretraining|finetuning) n=(\d+): (.+)", name); out = {"phase": a[1], "n": int(a[2])}; rest = a[3]
            if b := F(r"bytes of (\S+) / (\S+)", rest): return "bytes_share", {**out, "model": b[1], "baseline": b[2]}
            if b := F(r"bytes of (\S+)", rest): return "bytes", {**out, "model": b[1]}
            if b := F(r"utilisation by (\S+)", rest): return "utilization", {**out, "model": b[1]}
            if b := F(r"(\S+) / (\S+)", rest): return "time_ratio", {**out, "baseline": b[1], "model": b[2]}
            return "tokens_per_second", {**out, "model": rest}
        if kind in ("process", "finetuning"):
            a = F(r"n=(\d+): (.+)", name); out = {"n": int(a[1])}; rest = a[2]
            if b := F(r"memory of (\S+)", rest): return "memory", {**out, "model": b[1]}
            if b := F(r"ours / (\S+)", rest): return "speed_ratio", {**out, "model": "ours", "baseline": b[1]}
            return {"words/s": "words_per_second", "tokens/s": "tokens_per_second"}[unit], {**out, "model": rest}
        if kind == "shares":
            a = F(r"n=(\d+): (\w+) of (\S+)", name)
            return ("seconds" if a[2] == "whole" else "share"), {"n": int(a[1]), "part": a[2], "model": a[3]}
    if ident.startswith("projections-") and "experiment" not in c:
        a = F(r"n=(\d+) k=(\d+)(?: (none|headwise|key-value|layerwise))?.*", name)
        return "perplexity", {"model": name, "n": int(a[1]), "k": int(a[2]), **({"sharing": a[3]} if a[3] else {})}
    if ident.startswith("real-text-pretraining"):
        a = F(r"(.+)_(perplexity|loss)", name); return {"perplexity": "perplexity", "loss": "bits"}[a[2]], {"model": a[1]}
    if ident.startswith("real-text-training"):
        if a := F(r"(\w+)_over_(\w+)", name): return "speed_ratio", {"model": a[1], "baseline": a[2]}
        return "tokens_per_second", {"model": name.removesuffix("_tokens_per_second")}
    if ident == "preparing-speed":
        if name == "text": return "text_size", {}
        if name == "ours_over_stock": return "speed_ratio", {"model": "ours", "baseline": "stock"}
        a = F(r"(ours|stock)_(.+)", name); return a[2], {"model": a[1]}
    if ident == "prepared-data":
        a = F(r"(.+): (.+)", name); return a[2].replace(" ", "_"), {"source": a[1]}
    # trainings
    if a := F(r"plateau(?: n=(\d+))?: bits", name): return "context_free_bits", {"n": int(a[1] or c["n"])}
    a = F(r"(.+?)(?:, seed (\d+))?: (perplexity|bits)", name)
    run = c["runs"][a[1]]["model"]
    out = {"model": a[1], "n": run["n"], **({"seed": int(a[2])} if a[2] else {})}
    if run.get("k"): out |= {"k": run["k"], "sharing": run["sharing"]}
    return a[3], out

def curve(d, name, points):
    ident = d["identifier"]
    if ident.startswith("spectrum"):
        w, what = group(name); assert what == "curve, mean over heads"
        return dict(metric="cumulative_share", source=w["run"], layer=int(w["layer"]), points=points)
    if a := re.fullmatch(r"(.+), seed (\d+)", name):
        if "experiment" in d["configuration"]: return dict(metric="bits", model=a[1], seed=int(a[2]), points=points)
    known = d["measured"].get(name)
    return dict(metric="perplexity" if known and known["unit"] == "perplexity" else "bits", model=name, points=points)

def convert(d):
    ident, c = d["identifier"], dict(d["configuration"])
    exp = c.pop("experiment", None); tol = c.pop("tolerance", None); rules = c.pop("rules", None)
    if exp: made = "reproduce"
    elif ident.startswith("benchmark-"): exp, made = BENCH.get(ident.split("-")[1], "speed"), "benchmark"
    elif ident.startswith(("spectrum", "theorem", "optimal")):
        made = "analyze"; exp = {"spectrum-roberta": "figure-1", "theorem-1": "theorem-1", "theorem-2": "theorem-2"}.get(ident)
    else: exp, made = CONTEXT.get(ident), "script"
    ms = []
    for name, m in d["measured"].items():
        metric, at = places(d, name, m)
        ms.append(Measurement(metric=metric, value=m["value"], unit=m["unit"], interval=m["spread"], repetitions=m["repetitions"], **at))
    return Record(identifier=ident, experiment=exp, made_by=made, claim=d["claim"], paper=d["paper"], measurements=ms,
        curves=[curve(d, n, p) for n, p in d["curves"].items()], scale=d["scale"], hardware=d["hardware"], versions=d["versions"], commit=d["commit"],
        configuration=c, data=d["data"], command=d["command"], seconds=d["seconds"], date=d["date"], tolerance=tol, rules=rules)

if __name__ == "__main__":
    ARCH.mkdir(exist_ok=True)
    for path in sorted(RES.glob("*.json")):
        d = json.loads(path.read_text())
        if "measured" not in d: continue
        r = convert(d)
        shutil.move(path, ARCH / path.name)
        write(r, RES); read(path)
    print(len(list(RES.glob("*.json"))))
