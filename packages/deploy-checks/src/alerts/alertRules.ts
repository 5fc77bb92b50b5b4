import { join } from 'node:path';
import { CHART, parseYaml, read } from '../repository.ts';

/** An alert of a Prometheus rule file. */
export interface Alert {
  readonly alert: string;
  readonly expr: string;
  readonly for?: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly annotations: Readonly<Record<string, string>>;
}

export interface RuleFile {
  readonly groups: readonly { readonly name: string; readonly rules: readonly Alert[] }[];
}

export const ALERTS_FILE = join(CHART, 'alerts/weighbridge.yaml');

export async function readAlerts(): Promise<Alert[]> {
  const [file] = parseYaml(await read('deploy/helm/weighbridge/alerts/weighbridge.yaml')) as RuleFile[];
  return (file?.groups ?? []).flatMap(({ rules }) => rules);
}
