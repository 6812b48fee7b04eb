import { helpOpen, kShortcuts } from '../state/shortcuts';
import { Dialog } from '../ui/dialog';

export function ShortcutTable() {
  return (
    <table data-testid="shortcuts">
      <tbody>
        {kShortcuts.map(([keys, text]) => (
          <tr key={keys}>
            <td class="now">
              {keys.split(' ').map((key) => (
                <kbd key={key}>{key}</kbd>
              ))}
            </td>
            <td>{text}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

export function HelpHost() {
  if (!helpOpen.value) return null;
  return (
    <Dialog title="Keys" testid="dialog-help" onClose={() => (helpOpen.value = false)}>
      <ShortcutTable />
    </Dialog>
  );
}
