// Cells are exact rectangles in longitude and latitude. One canvas draws all that moves: thousands of elements would be too slow.
"use strict";
(() => {
  const FLASH = 1500; // milliseconds
  const KEPT = 60000; // that a publication stays on the map
  const MOST = 20000; // of them
  const map = L.map("map", {
    crs: L.CRS.EPSG4326, preferCanvas: true, attributionControl: false, minZoom: 0, maxZoom: 18,
    zoomAnimation: !matchMedia("(prefers-reduced-motion: reduce)").matches,
  });
  map.setView([20, 0], 1);
  const items = new Map(); // publications: id -> {lat, lon, at, flash}
  const shapes = new Map(); // subscriptions: id -> {boxes, flash}
  let fitted = false;
  const frames = [];
  window.mapFrames = frames; // milliseconds of the last frames, for the tests

  const Canvas = L.Layer.extend({
    onAdd() {
      this._canvas = L.DomUtil.create("canvas", "", map.getPane("overlayPane"));
      this._canvas.setAttribute("aria-hidden", "true");
      map.on("move zoomend resize viewreset", this.place, this);
      this.place();
      requestAnimationFrame(() => this.draw());
    },
    place() {
      const size = map.getSize();
      this._canvas.width = size.x;
      this._canvas.height = size.y;
      L.DomUtil.setPosition(this._canvas, map.containerPointToLayerPoint([0, 0]));
    },
    draw() {
      const begin = performance.now();
      const c = this._canvas.getContext("2d");
      const size = map.getSize();
      L.DomUtil.setPosition(this._canvas, map.containerPointToLayerPoint([0, 0]));
      c.clearRect(0, 0, size.x, size.y);
      const west = map.containerPointToLatLng([0, 0]);
      const east = map.containerPointToLatLng([size.x, size.y]);
      const kx = size.x / (east.lng - west.lng);
      const ky = size.y / (west.lat - east.lat);
      const x = (lon) => (lon - west.lng) * kx;
      const y = (lat) => (west.lat - lat) * ky;
      const now = Date.now();
      const mark = colour("--mark");
      const live = colour("--live");
      this.grid(c, west, east, x, y);
      for (const shape of shapes.values()) {
        const lit = now - shape.flash < FLASH;
        c.strokeStyle = lit ? live : mark;
        c.lineWidth = lit ? 2 : 1;
        for (const [minX, minY, maxX, maxY] of shape.boxes) {
          if (maxX < west.lng || minX > east.lng || maxY < east.lat || minY > west.lat) continue;
          if (lit) {
            c.globalAlpha = 0.35 * (1 - (now - shape.flash) / FLASH);
            c.fillStyle = live;
            c.fillRect(x(minX), y(maxY), (maxX - minX) * kx, (maxY - minY) * ky);
            c.globalAlpha = 1;
          }
          c.strokeRect(x(minX), y(maxY), (maxX - minX) * kx, (maxY - minY) * ky);
        }
      }
      c.fillStyle = colour("--bad");
      for (const [id, item] of items) {
        if (now - item.at > KEPT && !item.entity) {
          items.delete(id);
          continue;
        }
        const px = x(item.lon);
        const py = y(item.lat);
        if (px < 0 || py < 0 || px > size.x || py > size.y) continue;
        const half = now - item.flash < FLASH ? 5 : 2.5;
        c.fillRect(px - half, py - half, 2 * half, 2 * half);
      }
      frames.push(performance.now() - begin);
      if (frames.length > 600) frames.shift();
      setTimeout(() => requestAnimationFrame(() => this.draw()), 15);
    },
    grid(c, west, east, x, y) {
      let step = 180;
      while (step > (east.lng - west.lng) / 4) step /= 2;
      c.strokeStyle = colour("--line");
      c.lineWidth = 1;
      c.beginPath();
      for (let lon = Math.max(-180, Math.floor(west.lng / step) * step); lon <= Math.min(180, east.lng); lon += step) {
        c.moveTo(x(lon), y(Math.min(90, west.lat)));
        c.lineTo(x(lon), y(Math.max(-90, east.lat)));
      }
      for (let lat = Math.max(-90, Math.floor(east.lat / (step / 2)) * (step / 2)); lat <= Math.min(90, west.lat); lat += step / 2) {
        c.moveTo(x(Math.max(-180, west.lng)), y(lat));
        c.lineTo(x(Math.min(180, east.lng)), y(lat));
      }
      c.stroke();
    },
  });
  new Canvas().addTo(map);

  const fit = () => {
    const boxes = [...shapes.values()].flatMap((each) => each.boxes);
    const places = [...items.values()].map((each) => [each.lon, each.lat, each.lon, each.lat]);
    const all = [...boxes, ...places];
    if (fitted || !all.length) return;
    fitted = true;
    const least = (n) => all.reduce((found, each) => Math.min(found, each[n]), 1e9);
    const most = (n) => all.reduce((found, each) => Math.max(found, each[n]), -1e9);
    map.fitBounds([[least(1), least(0)], [most(3), most(2)]], { padding: [20, 20], animate: false });
  };
  window.mapTake = (found) => {
    const now = Date.now();
    for (const each of found.publications || []) {
      items.set(each.id, { lon: each.lon, lat: each.lat, at: now, flash: now, entity: each.entity });
    }
    while (items.size > MOST) items.delete(items.keys().next().value);
    if (found.subscriptions) {
      const before = new Map(shapes);
      shapes.clear();
      for (const each of found.subscriptions) {
        shapes.set(each.id, { boxes: each.boxes, flash: before.get(each.id)?.flash || 0 });
      }
    }
    const feed = document.querySelector("#feed");
    for (const each of (found.notifications || []).slice(-30)) {
      const shape = shapes.get(each.subscription_id);
      if (shape) shape.flash = now;
      const line = document.createElement("li");
      const phase = Object.assign(document.createElement("span"), { className: `phase ${each.phase}`, textContent: each.phase });
      const why = Object.assign(document.createElement("a"), { textContent: "why" });
      const query = new URLSearchParams({ subscription_id: each.subscription_id, publication_id: each.publication_id });
      why.href = `${place("/explain")}?${query}`;
      why.setAttribute("aria-label", `why ${each.subscription_id} and ${each.publication_id}`);
      line.append(phase, ` ${each.recipient_id} ← ${each.publication_id} `, why);
      feed.prepend(line);
    }
    while (feed.children.length > 30) feed.lastChild.remove();
    fit();
    document.querySelector("#counts").textContent =
      `${shapes.size} subscriptions with a place, ${items.size} publications of the last minute`;
  };
  listen("/console/map/events", {}, window.mapTake);
})();
