import { api } from '../api/client.ts';
import { Code, Name, Time } from '../ui/bits.tsx';
import { Filters } from '../ui/fields.tsx';
import { Page } from '../ui/Page.tsx';
import styles from '../ui/page.module.css';
import { given, useSearch } from '../ui/search.ts';
import { List } from '../ui/Table.tsx';

const FILTERS = ['resource_id', 'actor_principal_id', 'action', 'page_token'] as const;

export function Audit() {
  const [search] = useSearch();
  const query = api.useQuery('get', '/api/v1/audit', { params: { query: given(search, FILTERS) } });
  return (
    <Page title="Audit" lead="Who changed what, newest first.">
      <Filters
        filters={[
          { name: 'actor_principal_id', label: 'By' },
          { name: 'action', label: 'Action' },
          { name: 'resource_id', label: 'Resource' },
        ]}
      />
      <List
        query={query}
        caption="Changes"
        rowKey={({ id }) => id}
        columns={[
          { title: 'At', value: ({ at }) => <Time at={at} /> },
          { title: 'Action', value: ({ action }) => <Code text={action} /> },
          { title: 'Resource', value: ({ resource_id }) => <Code text={resource_id} />, wrap: true },
          {
            title: 'By',
            value: (row) => (
              <>
                <Name text={row.actor_principal_id} />
                <small>
                  <Name text={row.actor_key_id ?? row.actor_oidc_subject ?? '–'} />
                </small>
              </>
            ),
            wrap: true,
          },
          {
            title: 'What changed',
            value: ({ detail }) => <Detail of={detail} />,
            wrap: true,
          },
        ]}
        empty={<p>No change matches.</p>}
      />
    </Page>
  );
}

/** Each field of a change on its line. */
function Detail({ of }: { of: unknown }) {
  return (
    <ul className={styles.details}>
      {changesIn(of).map(([name, text]) => (
        <li key={name}>
          {name !== '' && <Name text={`${name}: `} />}
          <Code text={text} />
        </li>
      ))}
    </ul>
  );
}

/** What an entry says of each field, by its path: of a change from what to what. */
function changesIn(of: unknown, path = ''): (readonly [path: string, text: string])[] {
  if (typeof of !== 'object' || of === null || Array.isArray(of)) return [[path, textOf(of)]];
  const fields = Object.entries(of);
  if (fields.length === 2 && 'from' in of && 'to' in of) {
    return [[path, `${textOf(of.from)} → ${textOf(of.to)}`]];
  }
  return fields.flatMap(([name, value]) => {
    // Which fields changed says it without the word.
    const isWord = path === '' && name === 'changed' && typeof value === 'object';
    return changesIn(value, isWord ? '' : path === '' ? name : `${path} › ${name}`);
  });
}

function textOf(value: unknown): string {
  return typeof value === 'string' ? value : JSON.stringify(value);
}
