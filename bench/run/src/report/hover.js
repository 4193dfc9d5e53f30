// Shows values at the pointer: on the plots in their legends, on the heat map beside the pointer.
// All text is set as text, never as markup: names come from files that anyone may have written.
(() => {
  'use strict';
  const { series, heat } = JSON.parse(document.getElementById('readings').textContent);
  const tip = document.getElementById('tip');

  const plots = [...document.querySelectorAll('.plot')].map((figure) => ({
    area: figure.querySelector('.frame .area'),
    cursor: figure.querySelector('.cursor'),
    when: figure.querySelector('.when'),
    values: [...figure.querySelectorAll('.key b')],
    texts: series.plots[Number(figure.dataset.plot)],
  }));
  const last = series.at.length - 1;
  let point = last;

  // All plots show the values at the same time, so that they can be compared.
  const show = (index) => {
    point = index === null ? last : Math.max(0, Math.min(last, index));
    for (const plot of plots) {
      plot.cursor.style.display = index === null ? 'none' : 'block';
      plot.cursor.style.left = series.at[point] / 10 + '%';
      plot.when.textContent = index === null ? 'at the end' : 'at ' + series.time[point];
      plot.values.forEach((value, line) => { value.textContent = plot.texts[line][point]; });
    }
  };
  const nearest = (at) => {
    let best = 0;
    series.at.forEach((x, i) => {
      if (Math.abs(x - at) < Math.abs(series.at[best] - at)) best = i;
    });
    return best;
  };
  for (const { area } of plots) {
    const follow = (event) => {
      const box = area.getBoundingClientRect();
      show(nearest(((event.clientX - box.left) / box.width) * 1000));
    };
    area.addEventListener('pointermove', follow);
    area.addEventListener('pointerdown', follow);
    area.addEventListener('pointerleave', () => show(null));
    area.addEventListener('blur', () => show(null));
    area.addEventListener('keydown', (event) => {
      const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (step) { show(point + step); event.preventDefault(); }
    });
  }

  const share = (thousandths) => thousandths < 0 ? 'none' : (thousandths / 10).toFixed(1) + ' %';
  const describe = (block, inBlock) => {
    const [place, first] = heat.blocks[block];
    const end = block + 1 < heat.blocks.length ? heat.blocks[block + 1][1] : heat.names.length;
    const cell = first + inBlock;
    if (cell >= end) return null;
    const lines = heat.kinds.map((kind, index) => kind + ': ' + share(heat.used[index][cell]));
    return [heat.names[cell], ...(place ? [place] : []), ...lines].join('\n');
  };
  const hide = () => { tip.hidden = true; };
  for (const map of document.querySelectorAll('svg[data-block]')) {
    const follow = (event) => {
      const box = map.getBoundingClientRect();
      const size = box.width / map.viewBox.baseVal.width;
      const column = Math.floor((event.clientX - box.left) / size);
      const row = Math.floor((event.clientY - box.top) / size);
      const inside = column >= 0 && column < heat.columns && row >= 0;
      const text = inside && describe(Number(map.dataset.block), row * heat.columns + column);
      if (!text) return hide();
      tip.textContent = text;
      tip.hidden = false;
      const { width, height } = tip.getBoundingClientRect();
      const right = event.clientX + 14 + width > innerWidth;
      const left = right ? event.clientX - 14 - width : event.clientX + 14;
      const above = event.clientY + 14 + height > innerHeight;
      tip.style.left = Math.max(4, left) + 'px';
      tip.style.top = (above ? event.clientY - 14 - height : event.clientY + 14) + 'px';
    };
    map.addEventListener('pointermove', follow);
    map.addEventListener('pointerdown', follow);
    map.addEventListener('pointerleave', hide);
  }
  addEventListener('scroll', hide, { passive: true });
})();
