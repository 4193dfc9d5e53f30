#!/usr/bin/env python3
"""Makes every call of a served cell with a gRPC client that has none of Omega's files.

    drive.py HOST:PORT

The client asks the server for its calls (reflection), so it sees what a gRPC client in any language sees.
Each method has a step below that calls it and checks the answer. A method without a step is a failure, and
so is a step without a method.

The cell must be empty, have one replica, and accept calls from this computer. Calls that find no
leader are repeated for some time.
"""

import queue
import sys
import time
import zlib

import grpc
from google.protobuf import descriptor_pb2, message_factory
from google.protobuf.descriptor_pool import DescriptorPool
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

# Time for which a call is repeated until its result is as expected.
PATIENCE_S = 60


class Cell:
    """The methods of a server, found by reflection."""

    def __init__(self, address):
        self.channel = grpc.insecure_channel(address)
        grpc.channel_ready_future(self.channel).result(timeout=PATIENCE_S)
        self.pool = DescriptorPool()
        self.methods = {}
        self.driven = set()
        asked = [reflection_pb2.ServerReflectionRequest(list_services="")]
        for service in next(self._reflect(asked)).list_services_response.service:
            self._learn(service.name)

    def _reflect(self, requests):
        stub = reflection_pb2_grpc.ServerReflectionStub(self.channel)
        return stub.ServerReflectionInfo(iter(requests))

    def _learn(self, service):
        asked = [reflection_pb2.ServerReflectionRequest(file_containing_symbol=service)]
        files = next(self._reflect(asked)).file_descriptor_response.file_descriptor_proto
        self._add({file.name: file for file in map(descriptor_pb2.FileDescriptorProto.FromString, files)})
        for method in self.pool.FindServiceByName(service).methods:
            self.methods[f"{service}/{method.name}"] = method

    def _add(self, files):
        """Adds files to the pool, each after those that it builds on."""

        def add(name):
            try:
                return self.pool.FindFileByName(name)
            except KeyError:
                pass
            if name not in files:
                asked = [reflection_pb2.ServerReflectionRequest(file_by_filename=name)]
                for raw in next(self._reflect(asked)).file_descriptor_response.file_descriptor_proto:
                    file = descriptor_pb2.FileDescriptorProto.FromString(raw)
                    files[file.name] = file
            for needed in files[name].dependency:
                add(needed)
            self.pool.Add(files[name])
            return None

        for name in list(files):
            add(name)

    def call(self, name, /, **fields):
        """Calls a method with one request; a stream is answered by an iterator."""
        return self._method(name, lambda request: request(**fields))

    def stream(self, name, requests):
        """Calls a method with a stream of requests, which are fields of a message each."""
        return self._method(name, lambda request: (request(**fields) for fields in requests))

    def _method(self, name, arguments):
        method = self.methods[name]
        self.driven.add(name)
        request = message_factory.GetMessageClass(method.input_type)
        answer = message_factory.GetMessageClass(method.output_type)
        kind = ("stream" if method.client_streaming else "unary") + "_" + (
            "stream" if method.server_streaming else "unary"
        )
        call = getattr(self.channel, kind)(
            f"/{name}",
            request_serializer=request.SerializeToString,
            response_deserializer=answer.FromString,
        )
        return call(arguments(request), timeout=PATIENCE_S)


def insist(what, look):
    """Repeats a call until it returns something."""
    until = time.monotonic() + PATIENCE_S
    while True:
        try:
            seen = look()
        except grpc.RpcError as error:
            if error.code() != grpc.StatusCode.UNAVAILABLE:
                raise
            seen = None
        if seen:
            return seen
        if time.monotonic() > until:
            raise AssertionError(f"{what}: it did not come to be")
        time.sleep(0.05)


def refused(code, call):
    """Makes a call that must be rejected with this status."""
    try:
        call()
    except grpc.RpcError as error:
        assert error.code() == code, f"{error.code()} instead of {code}: {error.details()}"
        assert "grpc-status-details-bin" in dict(error.trailing_metadata()), "it has no details"
        return
    raise AssertionError(f"it was not refused with {code}")


def cell(at):
    """Health, the cell itself, its policy, its members."""
    service = "omega.v1.CellService"
    health = at.call("grpc.health.v1.Health/Check")
    assert health.status == health.SERVING
    watched = at.call("grpc.health.v1.Health/Watch")
    assert next(watched).status == health.SERVING
    watched.cancel()
    told = insist("a leader", lambda: at.call(f"{service}/DescribeCell").members.leader)
    assert told == 1, told
    at.call(f"{service}/SetPolicy", policy={"ttl_after_finished_ms": 600_000})
    assert at.call(f"{service}/DescribeCell").policy.ttl_after_finished_ms == 600_000
    counted = at.call(f"{service}/GetStatistics")
    assert counted.started and [one.replica for one in counted.progress] == [1], counted
    added = at.call(f"{service}/ChangeMembers", steps=[{"add_learner": 2}])
    assert sorted(member.replica for member in added.members) == [1, 2], added
    refused(grpc.StatusCode.FAILED_PRECONDITION, lambda: at.call(f"{service}/TransferLeader", to=2))
    removed = at.call(f"{service}/ChangeMembers", steps=[{"remove": 2}])
    assert [member.replica for member in removed.members] == [1], removed
    saved = bytearray()
    for piece in at.call(f"{service}/Backup"):
        assert piece.crc32 == zlib.crc32(piece.offset.to_bytes(8, "little") + piece.data), "a piece"
        end = piece.offset + len(piece.data)
        saved.extend(bytes(max(0, end - len(saved))))
        saved[piece.offset : end] = piece.data
        length = piece.length
    assert len(saved) == length and saved.startswith(b"OMEGASNP"), "the last piece is the beginning"


def machines(at):
    """Two machines: one that stays, and one that is removed."""
    service = "omega.v1.MachineService"
    machine = {"name": "a", "capacity": [4000, 8 << 30], "labels": [{"key": "rack", "value": "1"}]}
    first = at.call(f"{service}/RegisterMachine", machine=machine).id
    assert at.call(f"{service}/RegisterMachine", machine=machine).id == first, "it is the same one"
    other = at.call(f"{service}/RegisterMachine", machine={"name": "b", "capacity": [1000]}).id
    at.call(f"{service}/DrainMachine", machine={"name": "b"})
    assert at.call(f"{service}/GetMachine", machine={"name": "b"}).machine.draining
    at.call(f"{service}/ReportLoad", machine=first, used=[1234])
    assert list(at.call(f"{service}/GetMachine", machine={"id": first}).machine.load)[:1] == [1234]
    listed = at.call(f"{service}/ListMachines", page_size=1)
    assert [status.id for status in listed.machines] == [first] and listed.next_page_token
    at.call(f"{service}/RemoveMachine", machine={"id": other})
    refused(grpc.StatusCode.NOT_FOUND, lambda: at.call(f"{service}/GetMachine", machine={"name": "b"}))
    refused(grpc.StatusCode.INVALID_ARGUMENT, lambda: at.call(f"{service}/RegisterMachine"))
    return first


def jobs(at):
    """A job that stays, and one that is resized and killed."""
    service = "omega.v1.JobService"
    group = {"count": 2, "request": [100, 1 << 20]}
    job = {"name": "web", "tenant": "t", "scheduler": "py", "kind": "JOB_KIND_SERVICE", "groups": [group]}
    web = at.call(f"{service}/SubmitJob", job=job).id
    assert at.call(f"{service}/SubmitJob", job=job).id == web, "it is the same one"
    assert at.call(f"{service}/GetJob", job={"name": "web"}).job.pending == 2
    why = at.call(f"{service}/ExplainJob", job={"name": "web"}, group="main")
    assert (why.waiting, why.groups[0].machines) == (2, 1), why
    refused(grpc.StatusCode.NOT_FOUND, lambda: at.call(f"{service}/ExplainJob", job={"id": web}, group="no"))
    wrong = {"job": {"id": web}, "profile": "[[profile]]"}
    refused(grpc.StatusCode.INVALID_ARGUMENT, lambda: at.call(f"{service}/ExplainJob", **wrong))
    changed = {**job, "name": "changed"}
    at.call(f"{service}/SubmitJob", job=changed)
    updated = {**changed, "groups": [{**group, "restarts": 1}]}
    assert at.call(f"{service}/UpdateJob", job=updated, version=0).version == 1
    refused(grpc.StatusCode.ABORTED, lambda: at.call(f"{service}/UpdateJob", job=changed, version=0))
    versions = at.call(f"{service}/ListJobVersions", job={"name": "changed"}).versions
    assert [version.number for version in versions] == [0, 1]
    at.call(f"{service}/DeleteJob", job={"name": "changed"})
    at.call(f"{service}/SubmitJob", job={"name": "gone", "groups": [group]})
    at.call(f"{service}/ResizeGroup", job={"name": "gone"}, count=5)
    assert at.call(f"{service}/GetJob", job={"name": "gone"}).job.pending == 5
    at.call(f"{service}/KillJob", job={"name": "gone"})
    changes = list(at.call(f"{service}/WatchJob", job={"name": "gone"}))
    assert changes[-1].ended, "the stream ends with the job"
    watched = at.call(f"{service}/WatchJobs", name_prefix="we")
    first = next(watched)
    assert first.whole and [job.id for job in first.jobs] == [web] and not first.more, first
    watched.cancel()
    assert [status.id for status in at.call(f"{service}/ListJobs").jobs] == [web]
    assert len(at.call(f"{service}/ListJobs", ended=True).jobs) == 2
    at.call(f"{service}/DeleteJob", job={"name": "gone"})
    assert len(at.call(f"{service}/ListJobs", ended=True).jobs) == 1
    return web


def tenants(at):
    """A quota is set, read, and removed."""
    service = "omega.v1.TenantService"
    at.call(f"{service}/SetQuota", tenant="t", quota={"limit": [10_000, 1 << 40]})
    listed = {one.name: one for one in at.call(f"{service}/ListTenants").tenants}
    assert list(listed["t"].quota.limit)[:2] == [10_000, 1 << 40]
    at.call(f"{service}/SetTenant", tenant="t", config={"parent": "all", "guaranteed": [5_000], "weight": 3})
    listed = {one.name: one for one in at.call(f"{service}/ListTenants").tenants}
    assert (listed["t"].config.parent, listed["t"].config.weight) == ("all", 3)
    ring = {"tenant": "all", "config": {"parent": "t"}}
    refused(grpc.StatusCode.INVALID_ARGUMENT, lambda: at.call(f"{service}/SetTenant", **ring))
    at.call(f"{service}/SetTenant", tenant="t")
    assert not {one.name: one for one in at.call(f"{service}/ListTenants").tenants}["t"].HasField("config")
    at.call(f"{service}/SetAdmission", tenant="t", limit={"limit": [1_000, 1 << 40]})
    much = {"name": "much", "tenant": "t", "groups": [{"count": 2, "request": [600]}]}
    refused(grpc.StatusCode.RESOURCE_EXHAUSTED, lambda: at.call("omega.v1.JobService/SubmitJob", job=much))
    assert list({one.name: one for one in at.call(f"{service}/ListTenants").tenants}["t"].admission.limit)[0] == 1_000
    at.call(f"{service}/SetAdmission", tenant="t")
    at.call(f"{service}/SetQuota", tenant="t")
    assert not {one.name: one for one in at.call(f"{service}/ListTenants").tenants}["t"].HasField("quota")


def reservations(at):
    """Machines are reserved, the reservation is read, and ended."""
    service = "omega.v1.MachineService"
    now = at.call(f"{service}/ListReservations").now_ms
    machines = {"labels": [{"key": "rack", "values": ["none has it"]}]}
    night = {"name": "night", "machines": machines, "tenants": ["t"], "from_ms": now + 60_000, "until_ms": now + 120_000}
    at.call(f"{service}/CreateReservation", reservation=night)
    assert [one.name for one in at.call(f"{service}/ListReservations").reservations] == ["night"]
    never = {**night, "name": "never", "until_ms": now}
    refused(grpc.StatusCode.INVALID_ARGUMENT, lambda: at.call(f"{service}/CreateReservation", reservation=never))
    at.call(f"{service}/DeleteReservation", name="night")
    refused(grpc.StatusCode.NOT_FOUND, lambda: at.call(f"{service}/DeleteReservation", name="night"))


def resources(at):
    """The cell has a cluster resource: devices that belong to no machine."""
    service = "omega.v1.CellService"
    at.call(f"{service}/SetClusterCapacity", kind=3, amount=5_000)
    told = at.call(f"{service}/ListClusterResources")
    assert list(told.capacity) == [0, 0, 0, 5_000] and not any(told.claimed), told
    refused(grpc.StatusCode.INVALID_ARGUMENT, lambda: at.call(f"{service}/SetClusterCapacity", kind=4, amount=1))
    at.call(f"{service}/SetClusterCapacity", kind=3)


def peaks(at):
    """A peak calendar is set, read, and removed."""
    service = "omega.v1.MachineService"
    machines = {"labels": [{"key": "rack", "values": ["none has it"]}]}
    peak = {"from_ms": 72_000_000, "until_ms": 28_800_000, "batch_max": [{"kind": 0, "percent": 30}]}
    at.call(f"{service}/SetPeaks", calendar={"name": "web", "machines": machines, "peaks": [peak]})
    assert [one.name for one in at.call(f"{service}/ListPeaks").calendars] == ["web"]
    never = {"name": "never", "machines": machines, "peaks": [{**peak, "until_ms": 72_000_000}]}
    refused(grpc.StatusCode.INVALID_ARGUMENT, lambda: at.call(f"{service}/SetPeaks", calendar=never))
    at.call(f"{service}/RemovePeaks", name="web")
    refused(grpc.StatusCode.NOT_FOUND, lambda: at.call(f"{service}/RemovePeaks", name="web"))


def place(at, machine, job):
    """A scheduler of a few lines: it follows the cell, and places both tasks of the job."""
    service = "omega.v1.SchedulingService"
    held = {"name": "py", "holder": 7, "lease_ms": 60_000, "process": "drive.py"}
    me = at.call(f"{service}/Register", **held)
    assert at.call(f"{service}/Register", **held) == me, "the same holder has the same answer"
    other = {**held, "holder": 8}
    refused(grpc.StatusCode.FAILED_PRECONDITION, lambda: at.call(f"{service}/Register", **other))
    at.call(f"{service}/Renew", holder=7, names=["py"], process="drive.py")
    listed = {one.name: one for one in at.call(f"{service}/ListSchedulers").schedulers}
    assert listed["py"].holder.process == "drive.py" and listed["py"].holder.left_ms > 0, listed
    deltas = at.call(f"{service}/Sync", jobs_of={"scheduler": "py"})
    delta = next(deltas)
    assert delta.full and [one.id for one in delta.jobs] == [job], delta
    claim = {
        "scheduler": me.scheduler,
        "base": delta.to,
        "claim_jobs": [job],
        "claim_slots": [machine.slot],
        "claim_seen": [dict(zip(delta.slots, delta.sequences))[machine.slot]],
    }
    first = {**claim, "number": me.next_transaction, "claim_indices": [0]}
    commit = at.call(f"{service}/Commit", **first)
    assert not commit.conflicts, commit
    again = at.call(f"{service}/Commit", **first, retry=True)
    assert again == commit, "the same transaction has the same answer"
    # One task is already placed, and one is not.
    second = {**claim, "number": me.next_transaction + 1, "claim_indices": [0]}
    third = {**claim, "number": me.next_transaction + 2, "claim_indices": [1]}
    answers = list(at.stream(f"{service}/CommitStream", [second, third]))
    assert [answer.number for answer in answers] == [second["number"], third["number"]]
    assert len(answers[0].commit.conflicts) == 1 and not answers[1].commit.conflicts, answers
    remembered = at.call(f"{service}/GetTransaction", scheduler="py", number=first["number"])
    assert remembered.transaction.answer == commit, remembered
    unknown = {"scheduler": "py", "number": me.next_transaction + 9}
    refused(grpc.StatusCode.NOT_FOUND, lambda: at.call(f"{service}/GetTransaction", **unknown))
    answered = at.call(f"{service}/ListTransactions", scheduler="py", page_size=1)
    assert [one.number for one in answered.transactions] == [third["number"]], answered
    assert answered.next_page_token, "there is more than one"
    insist("the delta", lambda: next(deltas).to >= answers[1].commit.version)
    deltas.cancel()
    at.call(f"{service}/EndLeases", name="py", mark=0)
    at.call(f"{service}/Renew", holder=7, names=["py"])
    at.call(f"{service}/EndLeases", holder=7)
    late = {**claim, "number": me.next_transaction + 3, "claim_indices": [1]}
    refused(grpc.StatusCode.FAILED_PRECONDITION, lambda: at.call(f"{service}/Commit", **late))
    renew = {"holder": 7, "names": ["py"]}
    refused(grpc.StatusCode.FAILED_PRECONDITION, lambda: at.call(f"{service}/Renew", **renew))


def tasks(at, machine, job):
    """Reports about the tasks: by a call, and by an agent."""
    service = "omega.v1.TaskService"
    listed = at.call(f"{service}/ListTasks", job={"id": job}).tasks
    assert [task.machine_name for task in listed] == ["a", "a"]
    report = {"task": {"job": job, "index": 0}, "report": "TASK_REPORT_STARTED"}
    unknown = {"task": {"job": job, "index": 9}, "report": "TASK_REPORT_STARTED"}
    answer = at.call(f"{service}/ReportTasks", machine=machine, reports=[report, unknown])
    assert answer.refused[0] == "" and answer.refused[1] != "", answer
    refused(grpc.StatusCode.NOT_FOUND, lambda: at.call(f"{service}/ReadTaskLog", job={"id": 999}, index=0))
    says = queue.SimpleQueue()
    says.put({"attach_slots": [machine.slot]})
    orders = at.stream("omega.v1.AgentService/Attach", iter(says.get, None))
    told = next(orders)
    assert {start.task.index: start.running for start in told.starts} == {0: True, 1: False}, told
    ended = {"task_jobs": [job], "task_indices": [0], "task_slots": [machine.slot]}
    says.put({**ended, "task_reports": ["TASK_REPORT_FINISHED"]})
    stop = next(orders).stops[0].task
    assert (stop.job, stop.index) == (job, 0)
    says.put(None)
    orders.cancel()
    events = at.call("omega.v1.JobService/ListEvents", job={"id": job}, index=0).events
    assert {"started", "placed"} <= {event.kind for event in events}, events
    insist("the end of a task", lambda: at.call("omega.v1.JobService/GetJob", job={"id": job}).job.finished == 1)


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    at = Cell(sys.argv[1])
    cell(at)
    machine = machines(at)
    job = jobs(at)
    tenants(at)
    reservations(at)
    resources(at)
    peaks(at)
    place(at, machine, job)
    tasks(at, machine, job)
    ours = {name for name in at.methods if not name.startswith("grpc.reflection.")}
    missing = sorted(ours - at.driven)
    assert not missing, f"nothing here calls {missing}"
    print(f"{len(at.driven)} calls of {len({name.split('/')[0] for name in at.driven})} services answered as they should")


if __name__ == "__main__":
    main()
