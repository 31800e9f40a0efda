// Draws DATA, which Go wrote, with ECharts. No text of it is taken for HTML.
(function () {
  "use strict";
  var charts = [];
  function draw(id, option) {
    var c = echarts.init(document.getElementById(id), null, { renderer: "canvas" });
    option.animation = false;
    c.setOption(option);
    charts.push(c);
    return c;
  }
  window.addEventListener("resize", function () {
    charts.forEach(function (c) { c.resize(); });
  });

  function ms(v) { return v.toFixed(v < 100 ? 2 : 1) + " ms"; }

  // A tooltip of lines: a DOM element, so that nothing is read as markup.
  function lines(list) {
    var e = document.createElement("div");
    list.forEach(function (text, i) {
      var d = document.createElement("div");
      d.textContent = text;
      if (i === 0) { d.style.fontWeight = "600"; }
      e.appendChild(d);
    });
    return e;
  }

  function timeline(t) {
    var colours = ["#c9ced8", "#4c6ef5", "#2b8a3e", "#f08c00", "#c92a2a", "#4c6ef5", "#343a40"];
    var series = t.names.map(function (name, kind) {
      return {
        name: name, type: "custom", itemStyle: { color: colours[kind] },
        data: t.segments.filter(function (s) { return s[1] === kind; }),
        encode: { x: [2, 3], y: 0 }, clip: true, progressive: 5000,
        renderItem: function (params, api) {
          var from = api.coord([api.value(2), api.value(0)]), to = api.coord([api.value(3), api.value(0)]);
          var height = Math.max(1, api.size([0, 1])[1] * 0.8);
          return {
            type: "rect", style: api.style(),
            shape: { x: from[0], y: from[1] - height / 2, width: Math.max(0.5, to[0] - from[0]), height: height }
          };
        }
      };
    }).filter(function (s) { return s.data.length > 0; });
    var c = draw("timeline", {
      legend: { top: 0, type: "scroll" },
      grid: { left: 90, right: 50, top: 40, bottom: 80 },
      tooltip: {
        confine: true,
        formatter: function (p) {
          var s = p.data, r = t.requests[s[0]];
          var what = p.seriesName + ": " + ms(s[3] - s[2]);
          if (s[4] > 1) { what += " in " + s[4] + " gaps, the longest " + ms(s[5]); }
          return lines([r.label, what, "from " + ms(s[2]) + " to " + ms(s[3]), r.text]);
        }
      },
      xAxis: { type: "value", name: "ms since the start of the load", nameLocation: "middle", nameGap: 28, min: 0 },
      yAxis: {
        type: "category", inverse: true, data: t.requests.map(function (r) { return r.label; }),
        axisTick: { show: false }, axisLabel: { fontSize: 11 }
      },
      dataZoom: [
        { type: "slider", xAxisIndex: 0, filterMode: "weakFilter", bottom: 8, height: 22 },
        { type: "slider", yAxisIndex: 0, filterMode: "weakFilter", right: 8, width: 18 },
        { type: "inside", xAxisIndex: 0, filterMode: "weakFilter" }
      ],
      series: series
    });
    // As many labels as have room: ECharts' own choice lets them touch.
    function thin() {
      var zoom = c.getOption().dataZoom[1];
      var step = Math.ceil((zoom.endValue - zoom.startValue + 1) * 16 / Math.max(1, c.getHeight() - 120));
      c.setOption({ yAxis: { axisLabel: { interval: Math.max(1, step) - 1 } } });
    }
    thin();
    c.on("datazoom", thin);
  }

  function bars(id, h, colour) {
    draw(id, {
      title: { text: h.name + " tokens", left: "center", textStyle: { fontSize: 14 } },
      grid: { left: 60, right: 20, top: 40, bottom: 50 },
      tooltip: {
        trigger: "item",
        formatter: function (p) {
          var from = h.low + p.dataIndex * h.width, to = from + h.width - 1;
          return lines([p.value + " requests", (to > from ? from + " to " + to : String(from)) + " tokens"]);
        }
      },
      xAxis: {
        type: "category", name: "tokens", nameLocation: "middle", nameGap: 30,
        data: h.counts.map(function (_, i) { return h.low + i * h.width; })
      },
      yAxis: { type: "value", name: "requests", minInterval: 1 },
      series: [{ type: "bar", data: h.counts, barCategoryGap: "4%", itemStyle: { color: colour } }]
    });
  }

  function lengths(l) {
    bars("prompt", l.histograms[0], "#4682b4");
    bars("output", l.histograms[1], "#f0774f");
    bars("total", l.histograms[2], "#3fae74");
    draw("each", {
      title: { text: "tokens of each request", left: "center", textStyle: { fontSize: 14 } },
      legend: { top: 28 }, grid: { left: 60, right: 20, top: 70, bottom: 70 }, tooltip: { trigger: "axis" },
      xAxis: { type: "category", name: "request", nameLocation: "middle", nameGap: 28, data: l.prompts.map(function (_, i) { return i; }) },
      yAxis: { type: "value", name: "tokens" },
      dataZoom: [{ type: "slider", bottom: 8, height: 18 }, { type: "inside" }],
      series: [
        { name: "prompt", type: "bar", stack: "n", large: true, itemStyle: { color: "#4682b4" }, data: l.prompts },
        { name: "output", type: "bar", stack: "n", large: true, itemStyle: { color: "#f0774f" }, data: l.outputs }
      ]
    });
  }

  // A chart for each panel: medians as a line or bars, the trials as dots.
  function points(c) {
    var colours = ["#4c6ef5", "#f08c00"];
    c.panels.forEach(function (p, i) {
      var series = [];
      p.series.forEach(function (s, k) {
        series.push({
          name: s.name, type: p.lines ? "line" : "bar", data: s.values, symbolSize: 7, barMaxWidth: 40,
          itemStyle: { color: colours[k] }, lineStyle: { color: colours[k] }
        });
        var dots = [];
        s.trials.forEach(function (list, at) { list.forEach(function (v) { dots.push([at, v]); }); });
        if (dots.length > 0) {
          series.push({
            name: s.name + ", trials", type: "scatter", data: dots, symbolSize: 6,
            itemStyle: { color: "transparent", borderColor: p.lines ? colours[k] : "#343a40" }
          });
        }
      });
      draw("panel" + i, {
        title: { text: p.title, left: "center", textStyle: { fontSize: 14 } },
        legend: { top: 26, show: series.length > 1 },
        grid: { left: 70, right: 20, top: 60, bottom: 60 },
        tooltip: {
          confine: true,
          formatter: function (t) {
            var v = Array.isArray(t.value) ? t.value[1] : t.value;
            return lines([p.labels[Array.isArray(t.value) ? t.value[0] : t.dataIndex], t.seriesName + ": " + Number(v).toPrecision(6)]);
          }
        },
        xAxis: {
          type: "category", data: p.labels, name: p.key, nameLocation: "middle", nameGap: 34,
          axisLabel: { hideOverlap: true, width: 110, overflow: "truncate" }
        },
        yAxis: { type: "value", min: 0 },
        series: series
      });
    });
  }

  // The pairs of a gate: their changes as dots, the mean with its bounds, and the loss
  // that was to be found.
  function pairs(g) {
    var marks = [{ yAxis: 0, lineStyle: { color: "#868e96" }, label: { formatter: "no change" } },
      { yAxis: g.effect, lineStyle: { color: "#e03131" }, label: { formatter: g.effect.toFixed(1) + " %" } }];
    if (g.mean !== null) { marks.push({ yAxis: g.mean, lineStyle: { color: "#4c6ef5", type: "solid" }, label: { formatter: "mean" } }); }
    var band = g.bounds && g.bounds[0] !== null && g.bounds[1] !== null ? [[{ yAxis: g.bounds[0] }, { yAxis: g.bounds[1] }]] : [];
    draw("pairs", {
      title: { text: "change of " + g.metric + " in each pair, % (below 0 is worse)", left: "center", textStyle: { fontSize: 14 } },
      grid: { left: 70, right: 90, top: 50, bottom: 60 },
      tooltip: { confine: true, formatter: function (t) { return lines([g.pairs[t.dataIndex].label, g.pairs[t.dataIndex].text, Number(t.value).toPrecision(4) + " %"]); } },
      xAxis: { type: "category", data: g.pairs.map(function (p) { return p.label; }), name: "pair and order (A is the baseline)", nameLocation: "middle", nameGap: 34 },
      yAxis: { type: "value", scale: true, min: function (v) { return Math.floor(Math.min(v.min, g.effect, 0)) - 1; }, max: function (v) { return Math.ceil(Math.max(v.max, 0)) + 1; } },
      series: [{
        type: "scatter", symbolSize: 11, itemStyle: { color: "#343a40" }, data: g.pairs.map(function (p) { return p.change; }),
        markLine: { silent: true, symbol: "none", data: marks }, markArea: { silent: true, itemStyle: { color: "rgba(76,110,245,0.15)" }, data: band }
      }]
    });
  }

  ({ timeline: timeline, lengths: lengths, points: points, pairs: pairs })[DATA.kind](DATA);
})();
