import type { Sandbox } from '../../api/types';
import { AuditTable } from '../audit_table';

export function AuditTab({ box }: { box: Sandbox }) {
  return (
    <div class="stack" data-testid="tab-audit">
      <p class="lead">
        Everything that was done with this sandbox, newest first. It stays when the sandbox is gone.
      </p>
      <AuditTable query={{ sandbox: box.id }} withSandbox={false} />
    </div>
  );
}
