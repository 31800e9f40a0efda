package stat_test

import (
	"fmt"

	"github.com/servebench/servebench/metrics/stat"
)

// numpy.percentile([1, 2, 4, 8], 90) is 6.8.
func ExampleQuantile() {
	x := []float64{1, 2, 4, 8}
	p90, _ := stat.Quantile(len(x), func(i int) float64 { return x[i] }, 0.9)
	fmt.Printf("%.3f\n", p90)
	// Output: 6.800
}
