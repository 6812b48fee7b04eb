import type { Sandbox } from '../../../api/types';
import { EgressLog } from './egress_log';
import { PortsPanel } from './ports';
import { RulesEditor } from './rules';

export function NetworkTab({ box }: { box: Sandbox }) {
  return (
    <div class="stack" data-testid="tab-network">
      <RulesEditor box={box} />
      <PortsPanel box={box} />
      <EgressLog box={box} />
    </div>
  );
}
