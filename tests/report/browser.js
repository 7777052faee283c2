'use strict';
// Looks at the report in the frame, as wide and as light or dark as the test has made it, and writes
// what it finds into the page as JSON. The test reads it from the browser's dump.
const frame = document.querySelector('iframe');

const luminance = colour => {
  const [r, g, b] = colour.match(/[\d.]+/g).slice(0, 3).map(c => c / 255)
    .map(c => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
const contrast = (a, b) => {
  const [x, y] = [luminance(a), luminance(b)].sort((p, q) => q - p);
  return (x + 0.05) / (y + 0.05);
};

function figures(page) {
  return [...page.querySelectorAll('section[id] figure')].map(figure => {
    const svg = [...figure.querySelectorAll('svg')].find(s => s.getBoundingClientRect().width > 0);
    const box = svg && svg.getBoundingClientRect();
    const shapes = svg ? [...svg.querySelectorAll('path, polygon, rect, polyline, circle, use')]
      .filter(s => { const b = s.getBoundingClientRect(); return b.width + b.height > 0; }) : [];
    return {id: figure.closest('section').id, width: box ? box.width : 0, height: box ? box.height : 0,
      shapes: shapes.length, label: svg ? svg.getAttribute('aria-label') : ''};
  });
}

// Of all text that is shown: how high it is, and how it stands out from the page; names on the bars
// of a timeline and numbers in the cells of a heat map stand on colours of their own.
function texts(page) {
  const view = page.defaultView, walker = page.createTreeWalker(page.body, NodeFilter.SHOW_TEXT);
  const behind = view.getComputedStyle(page.body).backgroundColor;
  const found = {count: 0, smallest: 1e9, smallestText: '', palest: 1e9, palestText: ''};
  while (walker.nextNode()) {
    const node = walker.currentNode, parent = node.parentElement, range = page.createRange();
    if (!node.data.trim() || parent.closest('title, script, style, .names')) continue;
    range.selectNodeContents(node);
    const box = range.getBoundingClientRect();
    if (!box.width || !box.height) continue;
    const style = view.getComputedStyle(parent), inSvg = parent.closest('svg');
    const scale = inSvg ? inSvg.getScreenCTM().d : 1;
    const size = parseFloat(style.fontSize) * scale;
    const ratio = parent.closest('#heat') ? Infinity
      : contrast(inSvg ? style.fill : style.color, behind);
    found.count++;
    if (size < found.smallest) { found.smallest = size; found.smallestText = node.data.trim(); }
    if (ratio < found.palest) { found.palest = ratio; found.palestText = node.data.trim(); }
  }
  return found;
}

function zoom(page) {
  const box = page.querySelector('.timeline'), svg = box.querySelector('svg'), seen = [];
  const note = what => {
    seen.push({what, from: +box.dataset.from, to: +box.dataset.to, view: svg.viewBox.baseVal.width,
      names: [...box.querySelectorAll('.names span')].map(s => s.textContent)});
  };
  const view = page.defaultView, middle = svg.getBoundingClientRect().left + svg.clientWidth / 2;
  note('whole');
  box.querySelector('[data-act=in]').click();
  note('button');
  svg.dispatchEvent(new view.WheelEvent('wheel', {deltaY: -200, ctrlKey: true, clientX: middle,
    cancelable: true, bubbles: true}));
  note('wheel');
  svg.dispatchEvent(new view.KeyboardEvent('keydown', {key: 'ArrowLeft', cancelable: true}));
  note('left');
  svg.dispatchEvent(new view.KeyboardEvent('keydown', {key: '0', cancelable: true}));
  note('all');
  const link = page.querySelector('a[data-in]');
  if (link) link.click();
  note('link');
  const bar = [...svg.querySelectorAll('rect')].find(r => r.firstElementChild);
  bar.dispatchEvent(new view.PointerEvent('pointermove', {bubbles: true, clientX: middle}));
  return {seen, said: box.querySelector('output').textContent};
}

// Looks for a name, goes to the first, looks for what nothing has, and stops looking.
function search(page) {
  const box = page.querySelector('.timeline'), field = box.querySelector('input');
  const view = page.defaultView, said = () => box.querySelector('output').textContent;
  const type = text => {
    field.value = text;
    field.dispatchEvent(new view.Event('input', {bubbles: true}));
  };
  box.querySelector('[data-act=all]').click();
  type('LAYER.3');
  const found = {said: said(), marked: box.querySelectorAll('rect.found').length};
  field.dispatchEvent(new view.KeyboardEvent('keydown', {key: 'Enter', cancelable: true}));
  Object.assign(found, {next: said(), from: +box.dataset.from, to: +box.dataset.to});
  type('no such name');
  found.nothing = said();
  type('');
  found.left = box.querySelectorAll('.finding, rect.found').length;
  return found;
}

function look() {
  const page = frame.contentDocument, view = frame.contentWindow;
  const found = {
    background: view.getComputedStyle(page.body).backgroundColor,
    width: view.innerWidth, scrollWidth: page.documentElement.scrollWidth,
    fetched: view.performance.getEntriesByType('resource').map(entry => entry.name),
    figures: figures(page), texts: texts(page), zoom: zoom(page),
    search: search(page),
  };
  document.getElementById('found').textContent = JSON.stringify(found);
}

frame.addEventListener('load', () => {
  try {
    look();
  } catch (error) {
    document.getElementById('found').textContent = JSON.stringify({error: String(error)});
  }
});
