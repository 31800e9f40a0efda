package parquet_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/servebench/servebench/dataset/parquet"
)

func open(t testing.TB, name string) *parquet.File {
	t.Helper()
	data, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	f, err := parquet.Open(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return f
}

// plain spells a value as testdata/make.py does.
func plain(v any) any {
	switch v := v.(type) {
	case []byte:
		return map[string]any{"base64": v}
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = plain(v[i])
		}
		return out
	case map[string]any:
		out := map[string]any{}
		for k := range v {
			out[k] = plain(v[k])
		}
		return out
	}
	return v
}

func asJSON(t testing.TB, v any) string {
	t.Helper()
	b, err := json.Marshal(plain(v))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func golden(t testing.TB) map[string][]any {
	t.Helper()
	data, err := os.ReadFile("testdata/golden.json")
	if err != nil {
		t.Fatal(err)
	}
	var out map[string][]any
	in := json.NewDecoder(bytes.NewReader(data))
	in.UseNumber()
	if err := in.Decode(&out); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestValuesArePyarrows(t *testing.T) {
	want := golden(t)
	for _, name := range []string{"snappy.parquet", "zstd2.parquet", "gzip-plain.parquet", "none-legacy.parquet"} {
		f := open(t, name)
		if f.Rows() != 60 || len(f.Columns()) != len(want) {
			t.Fatalf("%s: %d rows, %d columns", name, f.Rows(), len(f.Columns()))
		}
		for column, values := range want {
			for _, rows := range [][]int{all(60), {0}, {59}, {24, 25}, {3, 4, 7, 26, 40, 58}, {}} {
				got, err := f.Read(t.Context(), column, rows)
				if err != nil {
					t.Errorf("%s: %v", name, err)
					continue
				}
				some := make([]any, len(rows))
				for i, r := range rows {
					some[i] = values[r]
				}
				if diff := cmp.Diff(normal(t, some), normal(t, got)); diff != "" {
					t.Errorf("%s, column %s, rows %v (-pyarrow +ours):\n%s", name, column, rows, diff)
				}
			}
		}
	}
}

// normal makes numbers of equal value equal.
func normal(t testing.TB, v any) (out any) {
	t.Helper()
	if err := json.Unmarshal([]byte(asJSON(t, v)), &out); err != nil {
		t.Fatal(err)
	}
	return out
}

func all(n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = i
	}
	return out
}

func TestColumnsAreDescribed(t *testing.T) {
	want := map[string]string{
		"text": "string", "always": "string", "number": "double", "small": "float", "int": "int64", "int32": "int32",
		"flag": "boolean", "one": "string", "turns": "list of string",
		"conversations": "list of {from: string, value: string}",
		"deep":          "list of list of {content: string, ids: list of int64}",
		"image":         "{bytes: bytes, path: string}", "map": "list of {key: string, value: int32}",
		"nothing": "int32", "fixed": "bytes", "large": "string",
	}
	got := map[string]string{}
	for _, c := range open(t, "none-legacy.parquet").Columns() {
		got[c.Name] = c.Type
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestWhatIsNotReadIsNamed(t *testing.T) {
	for name, want := range map[string]string{
		"brotli.parquet": "column a, row group 0: compressed with brotli, which is not read here; want snappy, zstd, gzip or none",
		"delta.parquet":  "column a, row group 0: encoded as DELTA_BYTE_ARRAY, which is not read here; want PLAIN or a dictionary, as pyarrow writes",
	} {
		_, err := open(t, name).Read(t.Context(), "a", []int{0})
		if err == nil || err.Error() != want {
			t.Errorf("%s: error %v, want %s", name, err, want)
		}
	}
	f := open(t, "empty.parquet")
	if _, err := f.Read(t.Context(), "text", []int{0}); f.Rows() != 0 || err == nil {
		t.Errorf("%d rows, error %v", f.Rows(), err)
	}
	if _, err := f.Read(t.Context(), "absent", nil); err == nil {
		t.Error("no error for a column that is not there")
	}
}

func TestWhatIsNoParquetFile(t *testing.T) {
	whole, err := os.ReadFile("testdata/small.parquet")
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string][]byte{
		"empty": {}, "text": []byte(`{"prompt": "this is JSON"}`), "cut short": whole[:len(whole)-100],
		"magic alone": []byte("PAR1PAR1PAR1"), "long footer": append(slices.Clone(whole[:len(whole)-8]), "\xff\xff\xff\x7fPAR1"...),
		"a pointer of LFS": []byte("version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 12\n"),
	} {
		if _, err := parquet.Open(bytes.NewReader(data), int64(len(data))); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestReadEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	enough := errors.New("enough")
	cancel(enough)
	if _, err := open(t, "small.parquet").Read(ctx, "text", []int{0}); !errors.Is(err, enough) {
		t.Errorf("error %v", err)
	}
}

// Where a file has checksums no changed byte of a page goes unnoticed.
func TestChecksumsAreChecked(t *testing.T) {
	whole, err := os.ReadFile("testdata/zstd2.parquet")
	if err != nil {
		t.Fatal(err)
	}
	want, err := open(t, "zstd2.parquet").Read(t.Context(), "text", all(25))
	if err != nil {
		t.Fatal(err)
	}
	noticed, silent := 0, 0
	for at := 4; at < 1200; at++ { // the first chunk
		data := slices.Clone(whole)
		data[at] ^= 4
		f, err := parquet.Open(bytes.NewReader(data), int64(len(data)))
		if err != nil {
			t.Fatal(err)
		}
		got, err := f.Read(t.Context(), "text", all(25))
		switch {
		case err != nil && strings.Contains(err.Error(), "checksum of a page is wrong"):
			noticed++
		case err == nil && !cmp.Equal(want, got):
			silent++
		}
	}
	if noticed == 0 || silent > 0 {
		t.Errorf("%d changes were noticed, %d were not", noticed, silent)
	}
}

// Damage is an error or other values: never a panic, and never memory beyond
// the file's own.
func TestDamage(t *testing.T) {
	for _, name := range []string{"small.parquet", "snappy.parquet", "zstd2.parquet", "gzip-plain.parquet"} {
		whole, err := os.ReadFile("testdata/" + name)
		if err != nil {
			t.Fatal(err)
		}
		failed := 0
		for i := range uint64(150) {
			rng := rand.New(rand.NewPCG(i, 0))
			data := slices.Clone(whole)
			for range 1 + rng.IntN(3) {
				data[rng.IntN(len(data))] = byte(rng.IntN(256))
			}
			if readAll(t.Context(), data) != nil {
				failed++
			}
		}
		if failed == 0 {
			t.Errorf("%s: no damage was noticed", name)
		}
	}
}

func readAll(ctx context.Context, data []byte) error {
	f, err := parquet.Open(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		return err
	}
	rows := all(min(f.Rows(), 100))
	var failed []error
	for _, c := range f.Columns() {
		_, err := f.Read(ctx, c.Name, rows)
		failed = append(failed, err)
	}
	return errors.Join(failed...)
}

// What opens has as many values in each column as rows, or an error.
func FuzzRead(f *testing.F) {
	for _, name := range []string{"small.parquet", "empty.parquet", "delta.parquet", "brotli.parquet"} {
		data, err := os.ReadFile("testdata/" + name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		file, err := parquet.Open(bytes.NewReader(data), int64(len(data)))
		if err != nil {
			return
		}
		rows := all(min(file.Rows(), 50))
		for _, c := range file.Columns() {
			if got, err := file.Read(t.Context(), c.Name, rows); err == nil && len(got) != len(rows) {
				t.Errorf("%d values for %d rows", len(got), len(rows))
			}
		}
	})
}
