"""Faults and reasons: why something gave no result, whose it is, and what to do next.

Every state that a person can see carries a code from :data:`REASONS`. What must not go in here: text that is made up at
the place of failure (that is an error's ``detail``), and any decision: this module only names things.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

__all__ = ["REASONS", "AffineError", "Fault", "Reason", "reason"]


class Fault(StrEnum):
    """Whose fault it is that something gave no result. Only ``model`` costs the miner anything."""

    MODEL = "model"
    EVALUATOR = "evaluator"
    PLATFORM = "platform"
    CHAIN = "chain"
    HUB = "hub"
    OPERATOR = "operator"


@dataclass(frozen=True)
class Reason:
    """A stable code with whose fault it is (None: nobody's) and the next step, written for the one who has to take it."""

    code: str
    fault: Fault | None
    meaning: str
    next_step: str


class AffineError(Exception):
    """An error with a reason code; ``detail`` holds the facts of this one occurrence."""

    def __init__(self, code: str, detail: str = "") -> None:
        self.reason = reason(code)
        self.code = code
        self.detail = detail
        super().__init__(f"{code}: {detail or self.reason.meaning} (fault: {self.reason.fault}; next: {self.reason.next_step})")

    def __reduce__(self) -> tuple[type[AffineError], tuple[str, str]]:
        """Pickle by code and detail, so that an error crosses a process boundary whole."""
        return (type(self), (self.code, self.detail))


_M, _E, _P, _C, _H, _O = Fault.MODEL, Fault.EVALUATOR, Fault.PLATFORM, Fault.CHAIN, Fault.HUB, Fault.OPERATOR
_FIX = "fix the repository, push a new revision and commit it"
_WAIT = "nothing: it is tried again next epoch"

_ALL = (
    # commitments
    Reason("submitted", None, "the commitment was read", "nothing: admission follows"),
    Reason("undecodable", _M, "the commitment is not a JSON object with model and revision", "commit {\"model\": repository, \"revision\": 40-hex sha} again"),
    Reason("reveal_pending", None, "the commitment is sealed until its reveal round", "nothing: it is read when the round has passed"),
    Reason("reveal_failed", _M, "the reveal round passed and the commitment could not be opened", "commit again; this one does not count against you"),
    Reason("tie_needs_review", None, "two commitments share a block and an extrinsic index is unknown", "the operator decides which came first"),
    Reason("superseded", None, "the hotkey has committed again since", "nothing: the newer commitment is the one evaluated"),
    # admission
    Reason("admitted", None, "the model may enter", "nothing: evaluation follows"),
    Reason("not_found", _M, "the hub has no such repository or revision", "publish the revision and commit it again"),
    Reason("not_found_yet", _H, "the hub does not know the revision yet (grace window)", _WAIT),
    Reason("invalid_repo", _M, "the repository or the revision is not a name that can exist", "commit owner/name and a 40-hex revision"),
    Reason("admission_failed", _E, "admission itself failed on this submission", _WAIT),
    Reason("dtype_not_allowed", _M, "a tensor has a type that is not a float of 16 or 32 bits", "save the weights as bfloat16, float16 or float32"),
    Reason("gated", _M, "the repository is gated or private", "make it public and commit again"),
    Reason("hub_unavailable", _H, "the hub did not answer as it should", _WAIT),
    Reason("missing_config", _M, "there is no readable config.json", _FIX),
    Reason("adapter_only", _M, "the repository holds an adapter, not a model", "merge the adapter into the base model before you submit"),
    Reason("remote_code", _M, "the repository needs code of its own (auto_map or a .py file)", "use an allowed architecture without custom code"),
    Reason("quantized", _M, "the weights are quantised", "submit the unquantised weights"),
    Reason("not_safetensors", _M, "weights in another format than safetensors", "save the weights as safetensors and remove the others"),
    Reason("no_weights", _M, "the repository holds no weights", _FIX),
    Reason("ambiguous_weights", _M, "several weight layouts lie side by side", "leave one layout: model.safetensors, or one index with its shards"),
    Reason("lfs_pointer", _M, "a file is a Git LFS pointer, not its content", "push the LFS objects"),
    Reason("empty_file", _M, "a weights file is empty", _FIX),
    Reason("not_a_weights_file", _M, "a file named .safetensors is something else", _FIX),
    Reason("header_too_large", _M, "a safetensors header is longer than the bound", "save with fewer tensors or shorter names"),
    Reason("bad_header", _M, "a safetensors header cannot be read", _FIX),
    Reason("size_mismatch", _M, "a weights file is shorter or longer than its header says", "upload the file again"),
    Reason("index_mismatch", _M, "the index and the shards do not agree", "save the model again so that index and shards agree"),
    Reason("duplicate_tensor", _M, "a tensor name stands twice", "save the model again"),
    Reason("missing_tensor", _M, "a tensor that the architecture needs is missing", "save the whole model"),
    Reason("unexpected_tensor", _M, "a tensor that the architecture does not have", "save only the tensors of the architecture"),
    Reason("shape_mismatch", _M, "a tensor's shape is not what config.json says", "save config.json and weights from the same model"),
    Reason("non_finite", _M, "a tensor holds NaN or infinity", "train again from a sound checkpoint"),
    Reason("architecture_not_allowed", _M, "the architecture is not on the list", "use an allowed architecture (see the settings, admission.architectures)"),
    Reason("too_large", _M, "the model is larger than the bound", "submit a smaller model"),
    Reason("tokenizer_unreadable", _M, "the tokenizer does not load", "save the tokenizer beside the model"),
    Reason("token_beyond_embedding", _M, "the tokenizer has ids beyond the embedding's rows", "resize the embedding or remove the added tokens"),
    Reason("no_chat_template", _M, "there is no chat template", "keep the base model's chat template"),
    Reason("template_unrenderable", _M, "the chat template does not render within its limits", "keep the base model's chat template"),
    Reason("template_not_allowed", _M, "the chat template is not one of the base models'", "keep the base model's chat template"),
    Reason("tokenizer_not_allowed", _M, "the tokenizer rewrites text as no base model's does", "keep the base model's normalizer, pre_tokenizer and decoder; tokens may be added"),
    Reason("file_not_allowed", _M, "a file name leaves the repository or is not allowed", _FIX),
    Reason("admission_budget", None, "this epoch's admissions are spent; owners take turns, and within an owner the earliest commitment is first", "nothing: it keeps its place in line and is judged in a later epoch"),
    Reason("expired_deferred", _H, "it could not be fetched in the allowed number of epochs", "commit again when the repository can be fetched"),
    # kinship
    Reason("fingerprint_failed", _E, "its files could not be read for its fingerprint, without which nothing is evaluated", _WAIT),
    Reason("withdrawn", _M, "its repository was closed or removed before its fingerprint was taken", "make it readable again: it is tried again next epoch"),
    Reason("origin", None, "the earliest commitment of these weights", "nothing"),
    Reason("exact_copy", _M, "the weights equal those of an earlier commitment", "train a model of your own"),
    Reason("same_weights", _M, "the weights equal those of an earlier commitment; only config, tokenizer, template or tensor names differ", "train further and commit new weights: these run as they were first committed, for their own miner too"),
    Reason("genesis_copy", _M, "the weights equal those of a genesis model", "train a model of your own"),
    # evaluation
    Reason("waiting", None, "it is planned for a later epoch: this epoch's budget is spent", _WAIT),
    Reason("owner_deferred", None, "this day's evidence slots are taken, or an older model still waits for one", "nothing: a later day's slots are open to it"),
    Reason("evaluating", None, "its evidence decides nothing yet", _WAIT),
    Reason("undecided", None, "the tasks of this epoch did not decide", _WAIT),
    Reason("futile", None, "a gain worth finding is unlikely; no more tasks are spent on it", "train further and commit new weights"),
    Reason("regressed", None, "it is worse than an incumbent by more than the tolerance in an environment", "mix that environment into the training and commit new weights"),
    Reason("expired_undecided", None, "the tasks or epochs of a contest are used up without a decision", "train further and commit new weights"),
    Reason("won", None, "it is better than every incumbent, with significance", "nothing: its assay follows"),
    Reason("assaying", None, "accepted; the measurement of its credit is running", _WAIT),
    Reason("accepted", None, "accepted and measured", "nothing: it is paid by its credit"),
    Reason("redundant", None, "a member that is strictly better has made it redundant as an incumbent; its credit stands", "nothing"),
    Reason("genesis", None, "a model that was there first: an incumbent that earns nothing", "nothing"),
    Reason("not_loadable", _M, "the model does not load in the engine", "load it with the engine named in the receipt and fix what it says"),
    Reason("unloadable_here", _E, "the evaluator could not load the model", _WAIT),
    Reason("no_answer", _E, "the engine gave no answer", "nothing: the task is tried again"),
    Reason("worker_lost", _P, "the evaluation process ended before it was done", "nothing: it is started again"),
    Reason("engine_crashed", _P, "the evaluation process crashed on the task's batch", "nothing: the batch is tried again"),
    Reason("model_crashes_engine", _M, "the same task failed three times for this model alone", "run the model on the task with the engine named in the receipt"),
    Reason("invalid_sample", _M, "the engine answered with non-finite log-probabilities", "train again from a sound checkpoint"),
    Reason("context_overflow", _M, "the model's own turns overflowed the context", "answer shorter"),
    Reason("prompt_too_long", _O, "the environment's prompt is longer than the context", "raise serving.max_model_length or lower the environment's level"),
    Reason("wrong_weights", _P, "the engine had loaded another model than was asked for: other tensors, config, template or tokenizer", "nothing: the rows are refused and run again"),
    Reason("grader_failed", _E, "the environment's grader raised", "tell the operator: the environment is at fault, no model is"),
    Reason("sandbox_unavailable", _O, "no sandbox for generated code can be started here", "install bubblewrap and allow user namespaces, as the detail says"),
    Reason("sandbox_failed", _E, "the sandbox broke while it ran a program, for a reason that is not the program's", "nothing: the task is tried again"),
    Reason("malformed_result", _E, "a stored result is neither a reward in [0, 1] nor a fault", "tell the developers: the row counts as missing, never as zero"),
    Reason("other_environment_version", _O, "the tasks were drawn for another version of the environment", "run the version that the task set names, or draw new tasks for a later epoch"),
    Reason("other_job_version", _O, "an evaluation job file was written by another version", "let the version that wrote it finish, or remove the file"),
    Reason("low_coverage", _P, "too few tasks have a result for a verdict", "nothing: the missing tasks are run again"),
    Reason("breaker_open", _P, "many different models failed alike: the platform is at fault", "the operator mends the platform and re-runs the epoch"),
    Reason("not_evaluated", None, "the environment did not exist when this was run", "re-run the environment for that epoch"),
    # credits, weights
    Reason("credited", None, "it adds to the frontier of what was committed before it", "nothing"),
    Reason("no_credit", None, "it adds nothing to the frontier of what was committed before it", "find a gain that no earlier model has"),
    Reason("not_registered", _M, "the hotkey is not registered on the subnet", "register the hotkey"),
    Reason("burned", None, "nothing is owed to anyone: the weight goes to the burn hotkey", "nothing"),
    Reason("sendable", None, "the weight vector passed all checks", "nothing: it is sent at the next tempo"),
    Reason("not_sendable", _O, "the weight vector did not pass a check", "read the check's message; nothing is sent until it passes"),
    Reason("no_vector", None, "the newest epoch has no weight vector under the present settings", "finish the epoch, or run the job rescore where the message says so; what was sent last stands on the chain"),
    Reason("sent", None, "the chain took the weights", "nothing"),
    Reason("skipped_historical", None, "only the newest closed epoch's weights are sent", "nothing"),
    Reason("rate_limited", _C, "the chain says it is too soon", "nothing: it is sent when the limit allows"),
    Reason("chain_rejected", _C, "the chain refused the call", "read the message; check the hotkey's permit and the version key"),
    Reason("chain_timeout", _C, "the chain did not answer in time", "nothing: it is tried again"),
    Reason("chain_unavailable", _C, "the chain cannot be reached, or lacks the block", "check the endpoint"),
    Reason("dry_run", None, "nothing was sent: dry run", "switch weights.dry_run off"),
    Reason("no_permit", _O, "the validator's hotkey is not registered or has no permit", "register the hotkey and stake"),
    # tables, settings, operation
    Reason("bad_settings", _O, "the settings are not valid", "correct the named field"),
    Reason("validator_runs", _O, "another validator is at work on this home", "wait for it, or stop it first"),
    Reason("bad_table", _O, "a frame does not have its table's schema", "tell the developers; nothing was written"),
    Reason("newer_table", _O, "a table was written by a newer version", "upgrade affine_dagster"),
    Reason("snapshot_differs", _C, "the chain now says something else about a closed epoch than the stored snapshot", "do not re-run: find out which node lies"),
    Reason("epoch_not_closed", None, "the epoch has not passed its beacon block", "wait for the block"),
    Reason("missing_input", _O, "a table that this step reads does not exist for this epoch", "materialise the upstream asset first"),
    Reason("scorer_without_history", _O, "the present scoring settings have no state for the prior epoch", "run the job rescore over the earlier epochs first"),
    Reason("league_failed", _P, "a process that makes the league's models ended before it was done", "read the detail and make the league again"),
    Reason("missing_package", _O, "a package that only this command needs is not installed", "install what the detail names"),
    Reason("conflicting_write", _P, "two writers wrote different content under one name", "tell the developers; the first write stands"),
    Reason("undecodable_epoch", _C, "too many commitments of this epoch cannot be decoded: the node or the decoder is broken", "check the chain client; the last good snapshot stands"),
)

REASONS: Mapping[str, Reason] = {entry.code: entry for entry in _ALL}
"""Every reason by its code. Codes are stable: they are stored in tables and shown to miners."""


def reason(code: str) -> Reason:
    """The reason of a code. Raises KeyError for a code that does not exist: that is a programming error."""
    return REASONS[code]
