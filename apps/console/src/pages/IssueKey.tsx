import type { ReactNode } from 'react';
import { usePolicyChoices, words } from '../api/choices.ts';
import { issueKey, type KeyBudget } from '../api/issueKey.ts';
import { isOperator, useWhoami } from '../app/session.ts';
import { Name } from '../ui/bits.tsx';
import type { Choices, FieldSpec } from '../ui/fieldSpecs.ts';
import { CreateModal, KEEP_OPEN } from '../ui/resources.tsx';

/** The scopes that each kind of use needs. */
const SCOPES = {
  inference: ['inference', 'models:read', 'usage:read'],
  self: ['inference', 'models:read', 'usage:read', 'keys:read', 'keys:write'],
  operator: ['inference', 'models:read', 'usage:read', 'keys:read', 'keys:write', 'admin:read', 'operator'],
} as const;

interface IssueDialog {
  readonly onClose: () => void;
  readonly onSecret: (secret: string) => void;
}

/** Issues a key: an operator chooses whose it is, and gives it a budget or a policy. */
export function IssueKey(dialog: IssueDialog) {
  return isOperator(useWhoami()) ? <IssueByOperator {...dialog} /> : <IssueOwn {...dialog} />;
}

const issueSpecs = (...more: Choices): readonly FieldSpec[] => [
  {
    name: 'name',
    label: 'Name',
    kind: 'text',
    required: true,
    hint: 'What uses it, such as an application.',
  },
  {
    name: 'use',
    label: 'For',
    kind: 'choice',
    choices: [
      ['inference', 'An application: asks models'],
      ['self', 'A person: also issues own keys'],
      ...more,
    ],
    initial: 'inference',
  },
];
const EXPIRES: FieldSpec = {
  name: 'expires_at',
  label: 'Expires',
  kind: 'date',
  hint: 'At 00:00 UTC. Empty: never.',
};

/** Whoever may not choose a policy issues keys that share theirs. */
function IssueOwn(dialog: IssueDialog) {
  const { policy_name } = useWhoami();
  return (
    <IssueFields {...dialog} specs={[...issueSpecs(), EXPIRES]}>
      {policy_name !== null && (
        <p>
          The policy <Name text={policy_name} /> governs it. Its spend counts together with yours.
        </p>
      )}
    </IssueFields>
  );
}

function IssueByOperator(dialog: IssueDialog) {
  const { principal_id } = useWhoami();
  const choices = usePolicyChoices();
  const specs: readonly FieldSpec[] | undefined = choices && [
    ...issueSpecs(['operator', 'An operator: everything']),
    {
      name: 'limit_micro_usd',
      label: 'Budget in USD',
      kind: 'usd',
      hint: 'For this key alone. Empty: its policy’s.',
    },
    {
      name: 'window',
      label: 'For each',
      kind: 'choice',
      choices: words('month', 'week', 'day', 'hour', 'none'),
      initial: 'month',
    },
    {
      name: 'policy_id',
      label: 'Policy',
      kind: 'choice',
      choices: choices.map(([id, name]) => [id, id === '' ? 'The principal’s, or the default' : name]),
      hint: 'If there is a budget too, both limits hold.',
    },
    { name: 'principal_id', label: 'Principal', kind: 'text', hint: `Empty: ${principal_id}.` },
    EXPIRES,
  ];
  return <IssueFields {...dialog} specs={specs} />;
}

interface IssueValues extends Partial<KeyBudget> {
  readonly name: string;
  readonly use: keyof typeof SCOPES;
  readonly expires_at?: string;
  readonly principal_id?: string;
  readonly policy_id?: string;
}

function IssueFields({
  specs,
  children,
  onClose,
  onSecret,
}: IssueDialog & { specs: readonly FieldSpec[] | undefined; children?: ReactNode }) {
  const whoami = useWhoami();
  return (
    <CreateModal
      title="Issue a key"
      submit="Issue"
      specs={specs}
      create={async (values) => {
        const { use, limit_micro_usd, window = 'month', ...key } = values as unknown as IssueValues;
        const scopes = SCOPES[use].filter((scope) => whoami.scopes.includes(scope));
        const budget = limit_micro_usd === undefined ? undefined : { limit_micro_usd, window };
        onSecret(await issueKey({ ...key, scopes }, budget));
        return KEEP_OPEN;
      }}
      onClose={onClose}
    >
      {children}
    </CreateModal>
  );
}
