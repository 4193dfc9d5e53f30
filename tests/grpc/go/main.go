// Calls a served cell from Go: registers a machine, submits a job, submits it again, and lists its tasks.
//
//	main HOST:PORT
//
// The code of the package omega/v1 is generated from server/client/proto: the function go_example of .ci/steps has the
// commands.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	omega "omega/v1"
)

// Debian's gRPC has the codec of the first version of Go's protobuf, but Debian's code generator writes messages of the
// second version. With gRPC as a Go module this codec is not needed.
type codec struct{}

func (codec) Marshal(message interface{}) ([]byte, error) {
	return proto.Marshal(message.(proto.Message))
}

func (codec) Unmarshal(bytes []byte, message interface{}) error {
	return proto.Unmarshal(bytes, message.(proto.Message))
}

func (codec) Name() string {
	return "proto"
}

func main() {
	if len(os.Args) != 2 {
		log.Fatal("usage: main HOST:PORT")
	}
	if err := run(os.Args[1]); err != nil {
		log.Fatal(err)
	}
}

func run(address string) error {
	// Neither TLS nor tokens, because `omega serve` uses none on a local address.
	connection, err := grpc.Dial(address, grpc.WithInsecure(), grpc.WithDefaultCallOptions(grpc.ForceCodec(codec{})))
	if err != nil {
		return err
	}
	defer connection.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()

	// Thousandths of a core, and bytes of memory.
	machine := &omega.Machine{Name: "go-machine", Capacity: []uint64{8000, 16 << 30}}
	machines := omega.NewMachineServiceClient(connection)
	if _, err := machines.RegisterMachine(ctx, &omega.RegisterMachineRequest{Machine: machine}); err != nil {
		return fmt.Errorf("register: %w", err)
	}

	job := &omega.Job{
		Name:   "go-job",
		Kind:   omega.JobKind_JOB_KIND_BATCH,
		Groups: []*omega.TaskGroup{{Count: 3, Request: []uint64{500, 1 << 30}}},
	}
	jobs := omega.NewJobServiceClient(connection)
	first, err := jobs.SubmitJob(ctx, &omega.SubmitJobRequest{Job: job})
	if err != nil {
		return fmt.Errorf("submit: %w", err)
	}
	// A repeated call has the answer of the first one: after a broken connection, send it again.
	again, err := jobs.SubmitJob(ctx, &omega.SubmitJobRequest{Job: job})
	if err != nil || again.Id != first.Id {
		return fmt.Errorf("submitted again: %v, %v instead of %v", err, again, first)
	}

	known, err := jobs.GetJob(ctx, &omega.GetJobRequest{Job: &omega.JobRef{Job: &omega.JobRef_Name{Name: "go-job"}}})
	if err != nil {
		return fmt.Errorf("get: %w", err)
	}
	fmt.Printf("job %d: %v\n", first.Id, known)

	// The code of an error shows whether the call was wrong, and the message explains the remedy.
	job.Groups[0].Count = 4
	_, err = jobs.SubmitJob(ctx, &omega.SubmitJobRequest{Job: job})
	if status.Code(err) == codes.OK {
		return fmt.Errorf("another job under the same name was accepted")
	}
	fmt.Println("another job of this name:", status.Convert(err).Message())
	return nil
}
