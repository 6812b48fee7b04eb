// Search over sandboxes, screens and actions, from everywhere.
import { useEffect, useRef, useState } from 'preact/hooks';
import { titleOf } from '../lib/names';
import { all } from '../state/fleet';
import { go } from '../state/route';
import { can } from '../state/session';
import { createOpen, helpOpen, paletteOpen } from '../state/shortcuts';
import { shownState, StateDot } from '../ui/bits';
import { Icon } from '../ui/icon';
import { matches } from './list/filter';

const kShownMax = 30;

interface Hit {
  key: string;
  text: string;
  hint: string;
  state?: Parameters<typeof StateDot>[0]['state'];
  run: () => void;
}

function hitsFor(text: string): Hit[] {
  const words = text.trim().toLowerCase();
  const fits = (name: string) => name.toLowerCase().includes(words);
  const places = [
    {
      key: 'new',
      text: 'New sandbox',
      show: can('create'),
      run: () => {
        createOpen.value = true;
      },
    },
    { key: 'images', text: 'Images', show: true, run: () => go('images') },
    { key: 'volumes', text: 'Volumes', show: true, run: () => go('volumes') },
    { key: 'audit', text: 'Audit', show: true, run: () => go('audit') },
    { key: 'tokens', text: 'Tokens', show: can('admin'), run: () => go('admin', 'tokens') },
    { key: 'settings', text: 'Settings', show: true, run: () => go('settings') },
    {
      key: 'help',
      text: 'Keys',
      show: true,
      run: () => {
        helpOpen.value = true;
      },
    },
  ];
  const boxes = all.value
    .filter((box) => box.state !== 'ended' && matches(box, text))
    .map((box) => ({
      key: box.id,
      text: titleOf(box),
      hint: box.image,
      state: shownState(box),
      run: () => go('sandboxes', box.id, 'terminal'),
    }));
  const actions = places
    .filter((place) => place.show && fits(place.text))
    .map((place) => ({ ...place, hint: '' }));
  return [...(words === '' ? actions : []), ...boxes, ...(words === '' ? [] : actions)].slice(
    0,
    kShownMax,
  );
}

export function PaletteHost() {
  return paletteOpen.value ? <Palette /> : null;
}

function Palette() {
  const ref = useRef<HTMLDialogElement>(null);
  const [text, setText] = useState('');
  const [at, setAt] = useState(0);
  const hits = hitsFor(text);
  const close = () => (paletteOpen.value = false);
  const choose = (hit: Hit | undefined) => {
    if (!hit) return;
    close();
    hit.run();
  };
  useEffect(() => {
    ref.current?.showModal();
    ref.current?.querySelector('input')?.focus();
  }, []);
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.key === 'ArrowDown' || event.key === 'ArrowUp') {
      const step = event.key === 'ArrowDown' ? 1 : -1;
      setAt((at + step + hits.length) % Math.max(1, hits.length));
      event.preventDefault();
    } else if (event.key === 'Enter') {
      choose(hits[at]);
      event.preventDefault();
    }
  };
  return (
    <dialog
      ref={ref}
      class="dialog palette"
      aria-label="Search"
      data-testid="palette"
      onClose={close}
      onClick={(event) => {
        if (event.target === ref.current) close();
      }}
    >
      <input
        type="text"
        placeholder="Search sandboxes and screens"
        aria-label="Search"
        role="combobox"
        aria-expanded="true"
        aria-controls="palette-hits"
        aria-activedescendant={hits[at] ? `hit-${at}` : undefined}
        data-testid="palette-input"
        value={text}
        onInput={(event) => {
          setText(event.currentTarget.value);
          setAt(0);
        }}
        onKeyDown={onKeyDown}
      />
      <ul id="palette-hits" role="listbox">
        {hits.map((hit, index) => (
          <li
            key={hit.key}
            id={`hit-${index}`}
            role="option"
            aria-selected={index === at}
            data-testid="palette-hit"
            onPointerMove={() => setAt(index)}
            onClick={() => choose(hit)}
          >
            {hit.state ? <StateDot state={hit.state} /> : <Icon name="right" />}
            <span class="grow clip">{hit.text}</span>
            <small class="clip">{hit.hint}</small>
          </li>
        ))}
      </ul>
    </dialog>
  );
}
