/* Zooms the timelines of a page. The SVG of a timeline is stretched to its box, so zooming only
   changes its viewBox. The names are HTML above it, made for spans that are wide enough to show
   some of their name. */
'use strict';
for (const box of document.querySelectorAll('.timeline')) {
  const svg = box.querySelector('svg'), names = box.querySelector('.names');
  const axis = box.querySelector('.axis'), said = box.querySelector('output');
  const whole = svg.viewBox.baseVal.width, height = svg.viewBox.baseVal.height;
  const seconds = +box.dataset.seconds, unsaid = said.textContent;
  const spans = [...svg.querySelectorAll('rect')].filter(r => r.firstElementChild)
    .map(r => ({x: r.x.baseVal.value, w: r.width.baseVal.value, y: r.y.baseVal.value,
      row: r.parentNode.dataset.row + ' ' + r.getAttribute('class'),
      text: r.textContent, rect: r}));
  const field = box.querySelector('input');
  let found = [], at_found = -1;
  const touches = new Map();
  let from = 0, to = whole;
  const time = s => !s ? '0' : s >= 1 ? +s.toPrecision(4) + ' s'
    : s >= 1e-3 ? +(s * 1e3).toPrecision(4) + ' ms' : +(s * 1e6).toPrecision(4) + ' µs';
  const tell = (parent, kind, text, left, width, top) => {
    const e = parent.appendChild(document.createElement('span'));
    e.className = kind; e.textContent = text; e.style.left = left + 'px';
    if (width) e.style.width = width + 'px';
    if (top !== undefined) e.style.top = top + 'px';
  };
  function draw() {
    const wide = svg.clientWidth, scale = wide / (to - from);
    svg.setAttribute('viewBox', `${from} 0 ${to - from} ${height}`);
    names.textContent = axis.textContent = '';
    let shown = 0;
    for (const s of spans) {
      const left = Math.max(s.x, from), right = Math.min(s.x + s.w, to);
      if ((right - left) * scale < 44 || shown++ > 400) continue;
      tell(names, s.row, s.text.split(' · ')[0], (left - from) * scale,
        (right - left) * scale, s.y);
    }
    const rough = (to - from) / whole * seconds / Math.max(2, Math.floor(wide / 130));
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].find(k => k * power >= rough) * power;
    for (let t = Math.ceil(from / whole * seconds / step) * step; t <= to / whole * seconds;
      t += step) {
      const left = (t / seconds * whole - from) * scale;
      if (left < wide - 30) tell(axis, 'tick', time(t), left);
    }
    box.dataset.from = from / whole * seconds;
    box.dataset.to = to / whole * seconds;
  }
  function show(a, b) {
    const width = Math.min(whole, Math.max(whole / 20000, b - a));
    from = Math.min(Math.max(0, a), whole - width);
    to = from + width;
    draw();
  }
  const at = x => from + (x - svg.getBoundingClientRect().left) / svg.clientWidth * (to - from);
  const zoom = (by, about) => show(about - (about - from) / by, about + (to - about) / by);
  const move = by => show(from + by * (to - from), to + by * (to - from));
  const acts = {in: () => zoom(2, (from + to) / 2), out: () => zoom(0.5, (from + to) / 2),
    all: () => show(0, whole), left: () => move(-0.5), right: () => move(0.5)};
  for (const b of box.querySelectorAll('button')) b.onclick = acts[b.dataset.act];
  /* Marks the bars whose name has the text, and says how many they are. */
  function find() {
    const text = field.value.trim().toLowerCase();
    found = spans.filter(s => text && s.text.split(' · ')[0].toLowerCase().includes(text));
    at_found = -1;
    box.classList.toggle('finding', text !== '');
    for (const s of spans) s.rect.classList.remove('found');
    for (const s of found) s.rect.classList.add('found');
    const all = found.reduce((sum, s) => sum + s.w, 0) / whole * seconds;
    said.textContent = !text ? unsaid : !found.length ? 'Nothing has this in its name.'
      : found.length + ' found, ' + time(all) + ' in all. Enter shows the next.';
  }
  function show_next(step) {
    if (!found.length) return;
    at_found = (at_found + step + found.length) % found.length;
    const s = found[at_found], margin = 2 * s.w;
    show(s.x - margin, s.x + s.w + margin);
    said.textContent = (at_found + 1) + ' of ' + found.length + ': ' + s.text;
  }
  field.oninput = find;
  field.onkeydown = e => {
    if (e.key !== 'Enter') return;
    e.preventDefault();
    show_next(e.shiftKey ? -1 : 1);
  };
  svg.addEventListener('wheel', e => {
    if (!e.ctrlKey && !e.metaKey) return;
    e.preventDefault();
    zoom(2 ** (-e.deltaY / 200), at(e.clientX));
  }, {passive: false});
  svg.ondblclick = e => zoom(3, at(e.clientX));
  svg.onkeydown = e => {
    const key = {'+': 'in', '=': 'in', '-': 'out', '0': 'all', ArrowLeft: 'left',
      ArrowRight: 'right'}[e.key];
    if (key) { e.preventDefault(); acts[key](); }
  };
  svg.onpointerdown = e => {
    touches.set(e.pointerId, at(e.clientX));
    svg.setPointerCapture(e.pointerId);
  };
  svg.onpointerup = svg.onpointercancel = e => touches.delete(e.pointerId);
  svg.onpointermove = e => {
    const span = e.target.firstElementChild && e.target.textContent;
    if (span || !found.length) said.textContent = span || unsaid;
    if (!touches.has(e.pointerId)) return;
    const held = touches.get(e.pointerId), now = at(e.clientX);
    const other = [...touches].find(([id]) => id !== e.pointerId);
    if (!other) return show(from + held - now, to + held - now);
    if (now !== other[1]) zoom((now - other[1]) / (held - other[1]) || 1, other[1]);
    touches.set(e.pointerId, at(e.clientX));
  };
  addEventListener('resize', () => show(from, to));
  for (const a of document.querySelectorAll(`a[data-in='${box.id}']`))
    a.addEventListener('click', () => show(a.dataset.from / seconds * whole,
      a.dataset.to / seconds * whole));
  draw();
}
