// The head of a table: names of its columns, with their class when they have one. The last column,
// with buttons, has a name only for who cannot see them.

export function Heads({ of, actions }: { of: (string | [string, string])[]; actions?: boolean }) {
  return (
    <thead>
      <tr>
        {of.map((head) => {
          const [text, kind] = typeof head === 'string' ? [head, ''] : head;
          return (
            <th key={text} class={kind}>
              {text}
            </th>
          );
        })}
        {actions && (
          <th>
            <span class="hidden-text">Actions</span>
          </th>
        )}
      </tr>
    </thead>
  );
}
