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
    if (t.course) { course(t.course); }
    if (t.percentiles) { percentiles(t.percentiles); }
    if (t.health) { health(t.health); }
  }

  // Tokens a second and requests in flight over time, with the window that the
  // throughput is of, where the rate settles, and the mean with its interval.
  function course(c) {
    function steps(list) {
      var points = list.map(function (v, i) { return [i * c.slice, v]; });
      if (list.length > 0) { points.push([list.length * c.slice, list[list.length - 1]]); }
      return points;
    }
    var areas = [], marks = [];
    if (c.window) {
      areas.push([{ name: c.window_name, xAxis: c.window[0], itemStyle: { color: "rgba(43,138,62,.10)" } }, { xAxis: c.window[1] }]);
      if (c.settled) {
        areas.push([{ name: "settling", xAxis: c.window[0], itemStyle: { color: "rgba(201,42,42,.12)" }, label: { position: "insideBottom" } }, { xAxis: c.settled }]);
      }
      if (c.interval) {
        areas.push([{ coord: [c.window[0], c.interval[0]], itemStyle: { color: "rgba(76,110,245,.35)" } }, { coord: [c.window[1], c.interval[1]] }]);
      }
      if (c.rate) { marks.push([{ coord: [c.window[0], c.rate], name: "mean" }, { coord: [c.window[1], c.rate] }]); }
    }
    draw("course", {
      title: { text: "output tokens a second and requests in flight", left: "center", textStyle: { fontSize: 14 } },
      legend: { top: 26 }, grid: { left: 70, right: 60, top: 70, bottom: 55 },
      tooltip: {
        trigger: "axis", confine: true,
        formatter: function (list) {
          return lines(["at " + list[0].value[0].toFixed(2) + " s"].concat(list.map(function (s) { return s.seriesName + ": " + Number(s.value[1]).toPrecision(5); })));
        }
      },
      xAxis: { type: "value", name: "s since the start of the load", nameLocation: "middle", nameGap: 28, min: 0, max: c.slice * c.tokens.length, axisLabel: { showMaxLabel: false } },
      yAxis: [{ type: "value", name: "tokens/s", min: 0 }, { type: "value", name: "in flight", min: 0, splitLine: { show: false } }],
      series: [
        {
          name: "output tokens/s", type: "line", step: "end", showSymbol: false, data: steps(c.tokens), itemStyle: { color: "#4c6ef5" }, lineStyle: { width: 1.5 },
          markArea: { silent: true, data: areas, label: { position: "insideTop", color: "#5b6577" } },
          markLine: { silent: true, symbol: "none", data: marks, lineStyle: { color: "#1c2330", type: "solid", width: 1.5 }, label: { formatter: "{b}", position: "insideEndTop" } }
        },
        { name: "requests in flight", type: "line", step: "end", showSymbol: false, yAxisIndex: 1, data: steps(c.in_flight), itemStyle: { color: "#f08c00" }, lineStyle: { width: 1 } }
      ]
    });
  }

  // An error bar from low to high at a category and an offset in pixels.
  function whiskers(name, data, colour, offset) {
    return {
      name: name, type: "custom", data: data, silent: true, z: 5, tooltip: { show: false }, itemStyle: { color: colour }, encode: { x: 0, y: [1, 2] },
      renderItem: function (params, api) {
        var low = api.coord([api.value(0), api.value(1)]), high = api.coord([api.value(0), api.value(2)]);
        var x = low[0] + (offset ? offset(api) : 0), style = { stroke: colour, lineWidth: 1.5, fill: null };
        return {
          type: "group",
          children: [[x, low[1], x, high[1]], [x - 4, low[1], x + 4, low[1]], [x - 4, high[1], x + 4, high[1]]].map(function (l) {
            return { type: "line", shape: { x1: l[0], y1: l[1], x2: l[2], y2: l[3] }, style: style };
          })
        };
      }
    };
  }

  // The percentiles of each metric, on a log scale, with their intervals.
  function percentiles(list) {
    var colours = ["#4c6ef5", "#f08c00", "#2b8a3e", "#ae3ec9", "#1098ad", "#c92a2a", "#5c940d", "#343a40"], series = [];
    list.forEach(function (m, k) {
      var colour = colours[k % colours.length], bars = [];
      m.intervals.forEach(function (r, i) { if (r && r[0] > 0) { bars.push([i, r[0], r[1]]); } });
      series.push({
        name: m.name, type: "line", symbolSize: 6, itemStyle: { color: colour }, lineStyle: { width: 1 },
        data: m.values.map(function (v) { return v > 0 ? v : null; })
      });
      series.push(whiskers(m.name, bars, colour));
    });
    draw("percentiles", {
      title: { text: "percentiles with 95 % intervals, ms", left: "center", textStyle: { fontSize: 14 } },
      legend: { top: 26, type: "scroll" }, grid: { left: 70, right: 20, top: 70, bottom: 55 },
      tooltip: {
        confine: true,
        formatter: function (p) {
          var m = list.filter(function (m) { return m.name === p.seriesName; })[0], r = m.intervals[p.dataIndex];
          return lines([m.name + ", " + m.at[p.dataIndex], ms(m.values[p.dataIndex]), r ? ms(r[0]) + " to " + ms(r[1]) : "too few samples for an interval"]);
        }
      },
      xAxis: { type: "category", data: list[0].at, name: "percentile", nameLocation: "middle", nameGap: 28 },
      yAxis: { type: "log", name: "ms" },
      series: series
    });
  }

  // What the client did in each slice of the run: a chart a panel.
  function health(h) {
    var colours = ["#4c6ef5", "#f08c00", "#2b8a3e", "#c92a2a"];
    h.panels.forEach(function (p, i) {
      var two = p.series.some(function (s) { return s.right; });
      var axis = { type: "value", min: 0, name: p.unit, nameGap: 10 };
      draw("panel" + i, {
        title: { text: p.title, left: "center", textStyle: { fontSize: 14 } },
        legend: { top: 26 }, grid: { left: 60, right: two ? 60 : 20, top: 76, bottom: 50 },
        tooltip: {
          trigger: "axis", confine: true,
          formatter: function (points) {
            return lines([points[0].axisValue + " s"].concat(points.map(function (q) {
              return q.seriesName + ": " + (q.value[1] === null ? "not measured" : Number(q.value[1]).toPrecision(4));
            })));
          }
        },
        xAxis: { type: "value", name: "s since the start of the load", nameLocation: "middle", nameGap: 28, min: 0 },
        yAxis: two ? [axis, { type: "value", min: 0, name: p.right, nameGap: 10, splitLine: { show: false } }] : axis,
        series: p.series.map(function (s, k) {
          return {
            name: s.name, type: "line", yAxisIndex: s.right ? 1 : 0, symbol: s.values.length > 60 ? "none" : "circle", symbolSize: 5,
            itemStyle: { color: colours[k] }, lineStyle: { color: colours[k] },
            data: s.values.map(function (v, at) { return [(at + 0.5) * h.interval, v]; })
          };
        })
      });
    });
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
    var colours = ["#4c6ef5", "#f08c00"], doubt = { SUSPECT: "emptyTriangle", INVALID: "diamond" };
    c.panels.forEach(function (p, i) {
      var series = [];
      p.series.forEach(function (s, k) {
        series.push({
          name: s.name, type: p.lines ? "line" : "bar", symbolSize: 7, barMaxWidth: 40,
          data: s.values.map(function (v, at) { // of a run in doubt the mark is another
            var mark = doubt[p.verdicts[at]];
            if (v === null || !mark) { return v; }
            var colour = p.verdicts[at] === "INVALID" ? "#c92a2a" : colours[k];
            if (p.lines) { return { value: v, symbol: mark, symbolSize: 11, itemStyle: { color: colour } }; }
            return { value: v, itemStyle: { color: colours[k], borderColor: colour === colours[k] ? "#343a40" : colour, borderWidth: 3, borderType: "dashed" } };
          }),
          itemStyle: { color: colours[k] }, lineStyle: { color: colours[k] }
        });
        var bars = [];
        s.intervals.forEach(function (r, at) { if (r) { bars.push([at, r[0], r[1]]); } });
        if (bars.length > 0) {
          series.push(whiskers(s.name, bars, p.lines ? colours[k] : "#343a40", p.lines ? null : function (api) {
            return api.barLayout({ barMaxWidth: 40, count: p.series.length })[k].offsetCenter;
          }));
        }
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
        legend: { top: 26, show: p.series.length > 1 || p.series[0].trials.some(function (l) { return l.length > 0; }) },
        grid: { left: 70, right: 20, top: 60, bottom: 60 },
        tooltip: {
          confine: true,
          formatter: function (t) {
            var v = Array.isArray(t.value) ? t.value[1] : t.value;
            var at = Array.isArray(t.value) ? t.value[0] : t.dataIndex, said = [p.labels[at], t.seriesName + ": " + Number(v).toPrecision(6)];
            var line = p.series.filter(function (s) { return s.name === t.seriesName; })[0], r = line && line.intervals[at];
            if (r) { said.push("95 % interval: " + Number(r[0]).toPrecision(6) + " to " + Number(r[1]).toPrecision(6)); }
            if (p.verdicts[at]) { said.push(p.verdicts[at]); }
            return lines(said);
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
    if (g.pairs.length === 0) { return; } // the page has no place for them
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


  // Repeats of one run: their values in the order in which they were made, the mean and
  // its interval.
  function repeats(r) {
    r.panels.forEach(function (p, i) {
      var low = p.bounds[0], high = p.bounds[1];
      var shown = p.values.concat(low === null || high === null ? [] : [low, high]);
      var from = Math.min.apply(null, shown), to = Math.max.apply(null, shown), room = (to - from) / 10 || Math.abs(to) / 100 || 1;
      draw("panel" + i, {
        title: { text: p.title, left: "center", textStyle: { fontSize: 14 } },
        grid: { left: 80, right: 70, top: 40, bottom: 60 },
        tooltip: { confine: true, formatter: function (t) { return lines([r.runs[t.dataIndex], Number(p.values[t.dataIndex]).toPrecision(6), r.verdicts[t.dataIndex]]); } },
        xAxis: { type: "category", data: r.runs, name: "run, in the order in which they were made", nameLocation: "middle", nameGap: 34, axisLabel: { hideOverlap: true } },
        yAxis: { type: "value", scale: true, min: from - room, max: to + room, axisLabel: { showMinLabel: false, showMaxLabel: false } },
        series: [{
          type: "scatter", symbolSize: 11,
          data: p.values.map(function (v, k) {
            var bad = { SUSPECT: "#f08c00", INVALID: "#c92a2a" }[r.verdicts[k]];
            return { value: v, symbol: bad ? "triangle" : "circle", itemStyle: { color: bad || "#343a40" } };
          }),
          markLine: { silent: true, symbol: "none", data: [{ yAxis: p.mean, lineStyle: { color: "#4c6ef5", type: "solid" }, label: { formatter: "mean" } }] },
          markArea: { silent: true, itemStyle: { color: "rgba(76,110,245,0.15)" }, data: low === null || high === null ? [] : [[{ yAxis: low }, { yAxis: high }]] }
        }]
      });
    });
  }
  ({ timeline: timeline, lengths: lengths, points: points, pairs: pairs, repeats: repeats })[DATA.kind](DATA);
})();
