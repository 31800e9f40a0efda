package importer

import (
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/servebench/servebench/manifest"
)

// A host file has all devices of a machine; an import those in use.
func TestRunTakesTheDevicesInUse(t *testing.T) {
	result, err := os.ReadFile("testdata/serve.json")
	if err != nil {
		t.Fatal(err)
	}
	four := []manifest.Accelerator{{Count: 4, Model: "L4", Interconnect: "PCIe", DeviceIndices: []int{0, 1, 2, 3}}}
	unnumbered := []manifest.Accelerator{{Count: 4, Model: "L4", Interconnect: "PCIe"}}
	mixed := []manifest.Accelerator{{Count: 2, Model: "L4", Interconnect: "PCIe", DeviceIndices: []int{0, 1}}, {Count: 1, Model: "T4", DeviceIndices: []int{2}}}
	for _, row := range []struct {
		name, launch string
		host, want   []manifest.Accelerator
	}{
		{"named", "CUDA_VISIBLE_DEVICES=2 vllm serve tiny", four, []manifest.Accelerator{{Count: 1, Model: "L4", Interconnect: "single device", DeviceIndices: []int{2}}}},
		{"more visible than used", "CUDA_VISIBLE_DEVICES=3,2,1 vllm serve tiny -tp 2", four, []manifest.Accelerator{{Count: 2, Model: "L4", Interconnect: "PCIe", DeviceIndices: []int{3, 2}}}},
		{"not named", "vllm serve tiny", four, []manifest.Accelerator{{Count: 1, Model: "L4", Interconnect: "single device"}}},
		{"not numbered", "CUDA_VISIBLE_DEVICES=1,2 vllm serve tiny -tp 2", unnumbered, []manifest.Accelerator{{Count: 2, Model: "L4", Interconnect: "PCIe"}}},
		{"replicas", "CUDA_VISIBLE_DEVICES=0 vllm serve tiny\nCUDA_VISIBLE_DEVICES=1 vllm serve tiny", four, []manifest.Accelerator{{Count: 2, Model: "L4", Interconnect: "PCIe", DeviceIndices: []int{0, 1}}}},
		{"two kinds", "CUDA_VISIBLE_DEVICES=1,2 vllm serve tiny -tp 2", mixed, []manifest.Accelerator{{Count: 1, Model: "L4", Interconnect: "PCIe", DeviceIndices: []int{1}}, {Count: 1, Model: "T4", DeviceIndices: []int{2}}}},
		{"all", "vllm serve tiny -tp 4", four, four},
	} {
		t.Run(row.name, func(t *testing.T) {
			rt, err := (&manifest.Redactor{}).Served(row.launch)
			if err != nil {
				t.Fatal(err)
			}
			m, err := Run(result, Options{Environment: &manifest.Environment{Accelerators: row.host}, Runtime: rt, Version: "0.1.0"})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(row.want, m.Environment.Accelerators); diff != "" {
				t.Error(diff)
			}
		})
	}
	if four[0].Count != 4 || four[0].Interconnect != "PCIe" {
		t.Error("the caller's host was changed")
	}
}
