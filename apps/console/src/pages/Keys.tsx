import type { components } from '@weighbridge/client';
import { getKey, revokeKey, rotateKey, updateKey } from '@weighbridge/client/operations';
import { api } from '../api/client.ts';
import { isOperator, useWhoami } from '../app/session.ts';
import { Badge, Button, Code, Name, Time } from '../ui/bits.tsx';
import { type Resource, useResource } from '../ui/dialogs.tsx';
import { Filters, TextField } from '../ui/fields.tsx';
import { Modal } from '../ui/Modal.tsx';
import type { Action } from '../ui/MoreMenu.tsx';
import { Page } from '../ui/Page.tsx';
import { KEEP_OPEN, RowActions, SecretModal } from '../ui/resources.tsx';
import { given, useSearch } from '../ui/search.ts';
import type { ShownFields } from '../ui/specs.ts';
import { List } from '../ui/Table.tsx';
import { IssueKey } from './IssueKey.tsx';
import { KeySpend } from './KeySpend.tsx';
import { PolicyName } from './PolicyName.tsx';
import { WhatIf } from './WhatIf.tsx';

type Key = components['schemas']['Key'];
interface KeyDialog {
  readonly of: Key;
  readonly onClose: () => void;
}

const YES_NO = [
  ['true', 'Yes'],
  ['false', 'No'],
] as const;

export function Keys() {
  const [search] = useSearch();
  const whoami = useWhoami();
  const fields = isOperator(whoami) ? FIELDS : OWN_FIELDS;
  const { dialog, open, close, edit, remove, confirm } = useResource({ ...KEYS, fields });
  const mayWrite = whoami.scopes.includes('keys:write');
  const query = api.useQuery('get', '/api/v1/keys', {
    params: { query: given(search, ['name_contains', 'principal_id', 'page_token', 'revoked']) },
  });
  const showSecret = (secret: string) => open(<Secret secret={secret} onClose={close} />);
  const rotate = (key: Key) =>
    confirm(rotateKey, key, {
      title: `Rotate ${key.name}`,
      submit: 'Rotate',
      isUnread: true,
      body: ({ hours = '24' }) => ({ grace_seconds: Math.round(Number(hours) * 3_600) }),
      text: HOURS,
      done: ({ key: secret }) => {
        showSecret(secret);
        return KEEP_OPEN;
      },
    });
  const actions = (key: Key): Action[] => [
    ...(whoami.scopes.includes('usage:read')
      ? [{ label: 'Spend', run: () => open(<KeySpend of={key} onClose={close} />) }]
      : []),
    ...(isOperator(whoami) ? [{ label: 'What if', run: () => open(<Ask of={key} onClose={close} />) }] : []),
    ...(mayWrite
      ? [
          { label: 'Edit', run: () => edit(key) },
          { label: 'Rotate', run: () => rotate(key) },
          { label: 'Revoke', danger: true, run: () => remove(key) },
        ]
      : []),
  ];
  return (
    <Page
      title="Keys"
      lead="Clients authenticate with keys. A secret is shown once; only its hash is stored."
      actions={
        mayWrite && (
          <Button kind="primary" onClick={() => open(<IssueKey onClose={close} onSecret={showSecret} />)}>
            Issue a key
          </Button>
        )
      }
    >
      <Filters
        filters={[
          { name: 'name_contains', label: 'Name contains' },
          { name: 'principal_id', label: 'Principal' },
          { name: 'revoked', label: 'Revoked', options: YES_NO },
        ]}
      />
      <List<Key>
        query={query}
        caption="Keys"
        rowKey={({ id }) => id}
        columns={[
          {
            title: 'Name',
            value: ({ name, key_hint }) => (
              <>
                <Name text={name} />
                <small>
                  <Code text={key_hint} />
                </small>
              </>
            ),
            wrap: true,
          },
          { title: 'State', value: (key) => <State of={key} /> },
          { title: 'Policy', value: ({ policy_id }) => <PolicyName id={policy_id} budget />, wrap: true },
          { title: 'Principal', value: ({ principal_id }) => <Name text={principal_id} />, wrap: true },
          { title: 'Scopes', value: ({ scopes }) => scopes.join(', '), wrap: true, spare: true },
          {
            title: 'Last used',
            value: ({ last_used_at }) => (last_used_at ? <Time at={last_used_at} /> : 'never'),
          },
          {
            title: 'Actions',
            value: (key: Key) =>
              key.revoked_at === null && <RowActions of={key.name} actions={actions(key)} />,
            end: true,
          },
        ]}
        empty={<p>No key matches. Issue one for each application.</p>}
      />
      {dialog}
    </Page>
  );
}

function State({ of: { revoked_at, disabled, expires_at } }: { of: Key }) {
  if (revoked_at) return <Badge tone="bad">revoked</Badge>;
  if (disabled) return <Badge tone="warn">disabled</Badge>;
  if (expires_at === null) return <Badge tone="good">active</Badge>;
  const hasExpired = new Date(expires_at) < new Date();
  return (
    <>
      <Badge tone={hasExpired ? 'warn' : 'good'}>{hasExpired ? 'expired' : 'active'}</Badge>
      <small>
        {hasExpired ? 'since' : 'until'} <Time at={expires_at} />
      </small>
    </>
  );
}

const HOURS = (
  <TextField
    label="Hours that the old secret still works"
    name="hours"
    type="number"
    min={0}
    max={720}
    defaultValue={24}
    hint="0 ends it now. The key keeps its id, policy and spend."
  />
);

const FIELDS: ShownFields<keyof components['schemas']['KeyChanges']> = {
  name: {},
  expires_at: { label: 'Expires', hint: 'At 00:00 UTC. Empty: never.' },
  disabled: { hint: 'Its requests are refused meanwhile.' },
};
/** Only an operator sees the policies to choose from, and sets what requests are attributed to. */
const OWN_FIELDS: ShownFields<keyof components['schemas']['KeyChanges']> = {
  ...FIELDS,
  policy_id: null,
  attribution: null,
};
export const KEYS: Resource<Key> = {
  noun: 'key',
  read: getKey,
  update: updateKey,
  remove: revokeKey,
  removeVerb: 'Revoke',
  fields: FIELDS,
  removal: () => 'Every request with this key is refused from now on. This can’t be undone.',
};

function Ask({ of: { id, name }, onClose }: KeyDialog) {
  return (
    <Modal title={`Would a request with ${name} be allowed?`} onClose={onClose} wide>
      <WhatIf keyId={id} onClose={onClose} />
    </Modal>
  );
}

function Secret({ secret, onClose }: { secret: string; onClose: () => void }) {
  return (
    <SecretModal title="Copy this key now" secret={secret} onClose={onClose}>
      <p>It is shown once. Whoever has it can spend.</p>
    </SecretModal>
  );
}
