import type { Json } from '../apply/desiredState.ts';
import { asObject } from './deployment.ts';
import type { Report } from './report.ts';

/** What LiteLLM tells of, as events of a webhook. */
const EVENTS: Readonly<Record<string, readonly string[]>> = {
  budget_alerts: ['budget.threshold', 'budget.exhausted'],
  outage_alerts: ['connector.down'],
  region_outage_alerts: ['connector.down'],
  cooldown_deployment: ['connector.down'],
  failed_tracking_spend: ['usage.quarantined', 'usage.gap'],
};
const SECTION = 'general_settings';
/** What this module reads of the section. */
export const ALERT_SETTINGS = ['alerting', 'alert_types', 'alert_to_webhook_url'];

/** The formats of LiteLLM's channels, and the variable that LiteLLM reads the address or the key from. */
const CHANNELS: Readonly<Record<string, Json>> = {
  slack: { name: 'litellm-slack', url: 'env:SLACK_WEBHOOK_URL', format: 'slack' },
  webhook: { name: 'litellm-webhook', url: 'env:WEBHOOK_URL', format: 'json' },
  pagerduty: {
    name: 'litellm-pagerduty',
    url: 'https://events.pagerduty.com/v2/enqueue',
    format: 'pagerduty',
    routing_key: 'env:PAGERDUTY_API_KEY',
  },
};

/** LiteLLM's alerts as webhooks. Addresses are secret: the file names the variables that have them. */
export function mapAlerting(config: Json, report: Report): Json[] {
  const settings = asObject(config[SECTION]);
  const { alerting, alert_types, alert_to_webhook_url } = settings;
  const types = alert_types === undefined ? undefined : textsOf(alert_types);
  for (const type of types ?? []) {
    const events = EVENTS[type];
    const from = `${SECTION}.alert_types.${type}`;
    if (events) report.addConverted(from, events.join(', '));
    else report.addSkipped(from, NO_EVENT);
  }
  const channels = textsOf(alerting);
  const isOnSlack = channels.includes('slack');
  const elsewhere = isOnSlack ? mapAddresses(asObject(alert_to_webhook_url), types, report) : [];
  if (!isOnSlack && alert_to_webhook_url !== undefined)
    report.addSkipped(`${SECTION}.alert_to_webhook_url`, 'LiteLLM reads it only with slack among alerting');
  const moved = Object.keys(asObject(alert_to_webhook_url));
  const webhooks = channels.flatMap((channel): Json[] => {
    const from = `${SECTION}.alerting.${channel}`;
    const webhook = CHANNELS[channel];
    if (!webhook) {
      report.addSkipped(from, 'no webhook has this format: send events to a service that does');
      return [];
    }
    const told = channel === 'slack' ? without(types, moved) : types;
    const events = told && eventsOf(told);
    if (events?.length === 0) {
      report.addSkipped(from, 'no event for what it tells of');
      return [];
    }
    const variable = String(webhook.routing_key ?? webhook.url).replace('env:', '');
    report.addConverted(
      from,
      `webhook ${String(webhook.name)}`,
      `apply reads ${variable} from its environment`,
    );
    return [{ ...webhook, ...(events && { events }) }];
  });
  return [...webhooks, ...elsewhere];
}

const NO_EVENT = 'no event: metrics and the audit log may tell of it';

/** A webhook for each address that some types of alerts have of their own. */
function mapAddresses(byType: Json, types: readonly string[] | undefined, report: Report): Json[] {
  const events = new Map<string, Set<string>>();
  for (const [type, addresses] of Object.entries(byType)) {
    const from = `${SECTION}.alert_to_webhook_url.${type}`;
    const known = types && !types.includes(type) ? undefined : EVENTS[type];
    if (!known) {
      report.addSkipped(from, types && !types.includes(type) ? 'not among alert_types' : NO_EVENT);
      continue;
    }
    for (const address of textsOf(addresses)) {
      const variable = /^os\.environ\/(\w+)$/.exec(address)?.[1] ?? variableFor(type);
      const isLiteral = !address.startsWith('os.environ/');
      const name = nameFor(variable);
      report.addConverted(
        from,
        `webhook ${name}`,
        isLiteral ? `put its address into ${variable}` : `apply reads ${variable} from its environment`,
      );
      events.set(variable, new Set([...(events.get(variable) ?? []), ...known]));
    }
  }
  return [...events].map(([variable, told]) => ({
    name: nameFor(variable),
    url: `env:${variable}`,
    format: 'slack',
    events: [...told],
  }));
}

function variableFor(type: string): string {
  return `SLACK_WEBHOOK_URL_${type.toUpperCase()}`;
}

function nameFor(variable: string): string {
  return `litellm-${variable.toLowerCase().replaceAll('_', '-')}`;
}

/** The types that stay. LiteLLM tells of all if none are named. */
function without(types: readonly string[] | undefined, moved: readonly string[]): string[] | undefined {
  if (types === undefined && moved.length === 0) return undefined;
  return (types ?? Object.keys(EVENTS)).filter((type) => !moved.includes(type));
}

function eventsOf(types: readonly string[]): string[] {
  return [...new Set(types.flatMap((type) => EVENTS[type] ?? []))];
}

function textsOf(value: unknown): string[] {
  const values = Array.isArray(value) ? value : [value];
  return values.filter((one): one is string => typeof one === 'string');
}
