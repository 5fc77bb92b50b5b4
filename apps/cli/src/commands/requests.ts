import type { components } from '@weighbridge/client';
import { createCorrection, getRequest, listRequests } from '@weighbridge/client/operations';
import { Command } from 'commander';
import { addCall, addList, send } from '../resources/calls.ts';
import { parseSignedMicroUsd } from '../resources/parsers.ts';
import { type Column, time, usd } from '../session/output.ts';
import type { Cli } from '../session/session.ts';
import { showRequest } from './requestDetail.ts';

type Request = components['schemas']['RequestRecord'];

export function requestsCommand(cli: Cli): Command {
  const requests = new Command('requests').description(
    'single requests: what they cost, or why they were refused',
  );
  addRequestList(requests.command('list'), cli);
  addCall(requests.command('show <request_id>'), cli, getRequest, {
    description: 'show a request with its attempts and corrections, or why it was refused',
    show: showRequest,
  });
  addCorrection(requests.command('correct <request_id>'), cli);
  return requests;
}

function addRequestList(command: Command, cli: Cli): void {
  addList(command, cli, listRequests, {
    skipsEmpty: false,
    description: 'list requests, the newest first; without --from, of the last month',
    query: {
      from: { text: 'start: a date-time' },
      to: { text: 'end: a date-time' },
      principal_id: { text: 'only this principal' },
      policy_id: { text: 'only this policy, as the governing one or a parent of it' },
      model: { text: 'only those that this model answered' },
      session_id: { text: 'only this session: its whole X-Svc-Session-Id' },
      team: { text: 'only this team, as the caller or the key named it' },
      team_id: { flag: 'team-id <id>', text: 'only those of principals that were in this team' },
      label: { flag: 'label <key=value>', text: 'only those with these labels, such as tier=gold' },
      outcome: [
        { text: 'only those with an attempt of this outcome, or refused' },
        {
          flag: 'refused',
          text: 'only those that this service refused, as --outcome refused',
          resolve: () => 'refused',
        },
      ],
      estimated: { text: 'only those with an attempt whose usage was estimated' },
      price_incomplete: { text: 'only those with an attempt whose price lacked something' },
    },
    examples: ['weighbridge requests list --refused', 'weighbridge requests list --key key_… --limit 20'],
    columns: COLUMNS,
  });
}

function addCorrection(command: Command, cli: Cli): void {
  command.option('--idempotency-key <text>', 'the same key again within 24 hours adds nothing');
  addCall(command, cli, createCorrection, {
    skipsEmpty: true,
    description: 'add a signed correction to the cost of a request; entries are never edited',
    flags: {
      amount_micro_usd: {
        text: 'the amount to add to the spend, such as 0.25, or -0.25 to give back',
        read: parseSignedMicroUsd,
      },
      reason: { text: 'the reason, which is recorded' },
      event_id: { text: "the attempt to correct; default: the request's first" },
    },
    examples: [
      'weighbridge requests correct req_… --amount-usd -0.25 --reason "not on the vendor\'s invoice"',
    ],
    send: (session, sent, { idempotencyKey }) =>
      send(session, createCorrection, {
        ...sent,
        header: idempotencyKey ? { 'idempotency-key': idempotencyKey } : {},
      }),
  });
}

const COLUMNS: readonly Column<Request>[] = [
  ['TIME', ({ admitted_at }) => time(admitted_at)],
  ['REQUEST', ({ request_id, refusal }) => request_id || `${refusal?.count} more`],
  ['KEY', ({ key_name, key_id }) => key_name ?? key_id],
  ['PRINCIPAL', ({ principal_id }) => principal_id],
  ['MODEL', ({ attempts, model_requested }) => attempts.at(-1)?.model ?? model_requested],
  ['OUTCOME', ({ outcome }) => outcome],
  ['ATTEMPTS', ({ attempts }) => attempts.length],
  ['COST', ({ cost_micro_usd }) => usd(cost_micro_usd)],
  ['WHY', ({ refusal }) => whyRefused(refusal)],
];

function whyRefused(refusal: Request['refusal']): string {
  if (!refusal) return '';
  const policy = refusal.policy_name ?? refusal.policy_id;
  const limits = refusal.counter && `${refusal.counter.limits}${policy ? ` of ${policy}` : ''}`;
  return [`${refusal.http_status} ${refusal.code}`, ...(limits ? [limits] : [])].join(', ');
}
