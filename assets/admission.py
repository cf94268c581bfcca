"""What may enter, and who is whose copy: admissions, fingerprints, kinship and the lineage graph."""

from dagster import AssetExecutionContext, AssetKey, MaterializeResult, asset

from affine_dagster.admission.batch import admit, genesis_texts
from affine_dagster.kinship.fingerprints import fingerprint
from affine_dagster.kinship.graph.projection import project
from affine_dagster.kinship.verdicts import judge
from affine_dagster.leaderboard.names import known_names
from affine_dagster.resources import GraphResource, HubResource, SettingsResource, StoreResource
from affine_dagster.tables import ADMISSIONS, CREDITS, FINGERPRINT_FAILURES, FINGERPRINTS, KINSHIP, SUBMISSIONS, SWAPS
from assets.chain import submissions
from assets.display import named, table
from assets.partitions import epoch_of, epochs

GROUP = "admission"


@asset(partitions_def=epochs, group_name=GROUP, deps=[submissions], pool="hub", kinds={"huggingface"})
def admissions(
    context: AssetExecutionContext, settings: SettingsResource, hub: HubResource, store: StoreResource
) -> MaterializeResult:
    """Admitted, rejected or deferred, each with its reason; deferred submissions come again next epoch."""
    tables, epoch = store.tables(), epoch_of(context)
    opened, values = hub.open(), settings.load()
    earlier = tables.until(ADMISSIONS, epoch)
    known, swaps = tables.until(SUBMISSIONS, epoch), tables.until(SWAPS, epoch)
    frame = admit(opened, values, known, earlier, epoch, genesis_texts(opened, values), swaps)
    tables.write(ADMISSIONS, epoch, frame)
    counts = {f"{state}": count for state, count in frame["state"].value_counts().sort("state").iter_rows()}
    columns = ["repo", "state", "reason", "fault", "detail", "submission_id"]
    return MaterializeResult(metadata={**counts, "rows": frame.height, "admissions": table(frame, columns)})


@asset(partitions_def=epochs, group_name=GROUP, deps=[admissions], pool="hub", kinds={"safetensors"})
def fingerprints(
    context: AssetExecutionContext, settings: SettingsResource, hub: HubResource, store: StoreResource
) -> MaterializeResult:
    """Digests of each admitted model, and of genesis models that are not known yet."""
    tables, epoch = store.tables(), epoch_of(context)
    known, failed = tables.until(FINGERPRINTS, epoch), tables.until(FINGERPRINT_FAILURES, epoch)
    made = fingerprint(hub.open(), settings.load(), tables.until(ADMISSIONS, epoch), epoch, known, failed)
    frame = made.rows
    tables.write(FINGERPRINT_FAILURES, epoch, made.failures)
    tables.write(FINGERPRINTS, epoch, frame)
    return MaterializeResult(
        metadata={
            "rows": frame.height,
            "not_read": table(made.failures, ["repo", "state", "reason", "detail", "submission_id"]),
            "fingerprints": table(frame, ["repo", "genesis", "weights_digest", "parameters", "submission_id"]),
        }
    )


@asset(partitions_def=epochs, group_name=GROUP, deps=[fingerprints], kinds={"polars"})
def kinship(context: AssetExecutionContext, store: StoreResource) -> MaterializeResult:
    """Graded verdicts with evidence, against all earlier models; direction by commit order."""
    tables, epoch = store.tables(), epoch_of(context)
    frame = judge(tables.until(FINGERPRINTS, epoch), tables.until(KINSHIP, epoch, inclusive=False), epoch)
    tables.write(KINSHIP, epoch, frame)
    shown = named(frame.with_columns(model="submission_id", peer="peer_submission_id"), known_names(tables, epoch), "model", "peer")
    return MaterializeResult(
        metadata={
            "rows": frame.height,
            "copies": frame.filter(frame["verdict"] == "exact_copy").height,
            "verdicts": table(shown, ["model", "verdict", "reason", "peer", "statistic", "value", "detail", "submission_id"]),
        }
    )


@asset(
    partitions_def=epochs, group_name="lineage", deps=[kinship, submissions, AssetKey("credits")], kinds={"sqlite"}
)
def lineage_graph(
    context: AssetExecutionContext, settings: SettingsResource, store: StoreResource, graph: GraphResource
) -> MaterializeResult:
    """The graph brought up to date, also by a re-run of an old epoch. It can be thrown away and rebuilt from the tables."""
    tables = store.tables()
    epoch = max([epoch_of(context), *tables.epochs(CREDITS, settings.scorer())])
    counts = project(
        graph.open(),
        submissions=tables.until(SUBMISSIONS, epoch),
        fingerprints=tables.until(FINGERPRINTS, epoch),
        kinship=tables.until(KINSHIP, epoch),
        credits=tables.need(CREDITS, epoch, settings.scorer()),
        swaps=tables.until(SWAPS, epoch),
    )
    return MaterializeResult(metadata={"nodes": counts.nodes, "edges": counts.edges})
