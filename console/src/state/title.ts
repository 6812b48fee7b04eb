// The title of the page says where one is.
import { effect } from '@preact/signals';
import { shortId } from '../lib/format';
import { titleOf } from '../lib/names';
import { fleet } from './fleet';
import { parts, screen } from './route';

effect(() => {
  const id = screen.value === 'sandboxes' ? parts.value[1] : undefined;
  const box = id ? fleet.value.get(id) : undefined;
  const place = box ? titleOf(box) : id ? shortId(id) : screen.value;
  document.title = `${place} · caisson`;
});
