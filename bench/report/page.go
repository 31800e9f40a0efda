package report

import (
	"bytes"
	"compress/gzip"
	_ "embed"
	"encoding/json"
	"html/template"
	"io"
	"strings"
	"sync"
)

// Page is what stands above the charts of an HTML page.
type Page struct {
	Title     string
	Simulated bool
	// Facts are pairs of a name and a value: the model, the load.
	Facts [][2]string
	// Notes are what a reader must know of the charts.
	Notes []string
}

// The pages carry all they need: they open offline, years later. assets/echarts.min.js.gz
// is Apache ECharts 6.1.0 as npm has it, packed by gzip -9n (Apache-2.0, licence and notice beside it).
// github.com/go-echarts would write the same options in Go types, but it has neither
// the script nor the series that a timeline needs without JavaScript in Go strings.
var (
	//go:embed assets/echarts.min.js.gz
	echartsPacked []byte
	//go:embed assets/page.js
	pageScript string
	//go:embed assets/page.css
	pageStyle string
	//go:embed assets/page.html
	pageText string

	pageTemplate = template.Must(template.New("page").Parse(pageText))
)

// echarts is the chart library, unpacked once: packed it is a third.
var echarts = sync.OnceValue(func() string {
	r, err := gzip.NewReader(bytes.NewReader(echartsPacked))
	if err != nil {
		panic(err) // it is part of the program
	}
	text, err := io.ReadAll(r)
	if err != nil {
		panic(err)
	}
	return string(text)
})

// table is a table of figures below the charts: a row is a name and its cells.
type table struct {
	Head []string
	Rows [][]string
}

// write writes a page with one <div> for each chart; data is what page.js draws
// them from.
func (p Page) write(w io.Writer, charts []string, figures table, data any) error {
	// Escaped so that no text in it can end the element: encoding/json writes
	// <, > and & as \u003c and so on.
	raw, err := json.Marshal(data)
	if err != nil {
		return err
	}
	var out bytes.Buffer
	err = pageTemplate.Execute(&out, map[string]any{
		"Page": p, "Charts": charts, "Table": figures,
		"Style": template.CSS(pageStyle), "ECharts": template.JS(echarts()), "Script": template.JS(pageScript),
		"Data": template.JS(raw),
	})
	if err != nil {
		return err
	}
	_, err = w.Write(out.Bytes())
	return err
}

// WithoutLibrary is a file without the chart library that pages embed, which is the
// same everywhere and says nothing of a run; the other lines keep their numbers.
func WithoutLibrary(page []byte) []byte {
	lines := strings.Repeat("\n", strings.Count(echarts(), "\n"))
	return bytes.ReplaceAll(page, []byte(echarts()), []byte(lines))
}
