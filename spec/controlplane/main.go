// Command controlplane holds every program of a Kubernetes control plane: the specs talk to real
// servers, and this is the only thing they have to build. Which program runs is decided by the first
// argument or, when the binary is called by a program's name, by that name.
package main

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	_ "time/tzdata" // the specs also run where no zone files are installed

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	kubectl "k8s.io/kubectl/pkg/cmd"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	nodestages "sigs.k8s.io/kwok/kustomize/stage/node/fast"
	nodeheartbeat "sigs.k8s.io/kwok/kustomize/stage/node/heartbeat-with-lease"
	podstages "sigs.k8s.io/kwok/kustomize/stage/pod/fast"
	kwokconfig "sigs.k8s.io/kwok/pkg/config"
	kwok "sigs.k8s.io/kwok/pkg/kwok/cmd"
	kwoklog "sigs.k8s.io/kwok/pkg/log"
	"sigs.k8s.io/kwok/pkg/utils/signals"
)

// A program returns its exit status.
type program func() int

var programs = map[string]program{
	"etcd":                    etcd,
	"kube-apiserver":          component(apiserver.NewAPIServerCommand),
	"kube-controller-manager": component(controllermanager.NewControllerManagerCommand),
	"kube-scheduler":          component(func() *cobra.Command { return scheduler.NewSchedulerCommand() }),
	"kubectl":                 component(kubectl.NewDefaultKubectlCommand),
	"kwok":                    fakeKubelets,
	"kwok-stages":             printStages,
}

func main() {
	run, found := programs[filepath.Base(os.Args[0])]
	if !found && len(os.Args) > 1 {
		// The programs read os.Args themselves: it must begin with their own name.
		run, found = programs[os.Args[1]]
		os.Args = os.Args[1:]
	}
	if !found {
		names := slices.Sorted(maps.Keys(programs))
		fmt.Fprintf(os.Stderr, "controlplane: name a program to run: %s\n", strings.Join(names, ", "))
		os.Exit(2)
	}
	os.Exit(run())
}

func etcd() int {
	etcdmain.Main(os.Args)
	return 0
}

func component(command func() *cobra.Command) program {
	return func() int { return cli.Run(command()) }
}

// fakeKubelets runs kwok, which plays the kubelet of every node.
func fakeKubelets() int {
	global := pflag.NewFlagSet("global", pflag.ContinueOnError)
	global.ParseErrorsAllowlist.UnknownFlags = true // the command's own flags are parsed later
	global.Usage = func() {}

	ctx, _ := kwoklog.InitFlags(signals.SetupSignalContext(), global)
	ctx, err := kwokconfig.InitFlags(ctx, global)
	if err == nil {
		command := kwok.NewCommand(ctx)
		command.Version = "" // a --version flag is registered already, by component-base
		command.PersistentFlags().AddFlagSet(global)
		err = command.ExecuteContext(ctx)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "kwok: %v\n", err)
		return 1
	}
	return 0
}

// printStages prints kwok's configuration: nodes become Ready, pods run at once and go when deleted.
func printStages() int {
	for _, stage := range []string{
		nodestages.DefaultNodeInit,
		nodeheartbeat.DefaultNodeHeartbeatWithLease,
		podstages.DefaultPodReady,
		podstages.DefaultPodComplete,
		podstages.DefaultPodDelete,
	} {
		fmt.Printf("---\n%s\n", stage)
	}
	return 0
}
