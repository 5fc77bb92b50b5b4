import { useQueryClient } from '@tanstack/react-query';
import { Link, Outlet } from '@tanstack/react-router';
import { useRef } from 'react';
import { api, signOut } from '../api/client.ts';
import { Button, Name } from '../ui/bits.tsx';
import { Loaded } from '../ui/Page.tsx';
import styles from './layout.module.css';
import { PAGES } from './pages.ts';
import { SignIn } from './SignIn.tsx';
import { useSession, type Whoami, WhoamiContext } from './session.ts';

const GROUPS = ['Spend', 'Access', 'Models', 'Service'] as const;

/** Signs a person in, then shows the pages. */
export function Layout() {
  const session = useSession();
  const wasSignedIn = useRef(false);
  if (session.data) {
    wasSignedIn.current = true;
    return <SignedIn />;
  }
  return (
    <main>
      <Loaded query={session}>{() => <SignIn hasEnded={wasSignedIn.current} />}</Loaded>
    </main>
  );
}

function SignedIn() {
  const query = api.useQuery('get', '/api/v1/whoami');
  if (query.data === undefined) {
    return (
      <main className={styles.main}>
        <Loaded query={query}>{() => null}</Loaded>
      </main>
    );
  }
  return (
    <WhoamiContext value={query.data}>
      <div className={styles.shell}>
        <a className={styles.skip} href="#main">
          Skip to the page
        </a>
        <Side whoami={query.data} />
        <main className={styles.main} id="main" tabIndex={-1}>
          <Outlet />
        </main>
      </div>
    </WhoamiContext>
  );
}

function Side({ whoami }: { whoami: Whoami }) {
  const queries = useQueryClient();
  const leave = async () => {
    const elsewhere = await signOut().catch(() => undefined);
    // Nothing of this person stays for the next one.
    queries.clear();
    window.location.assign(elsewhere ?? '/console/');
  };
  return (
    <header className={styles.side}>
      <p className={styles.brand}>Weighbridge</p>
      <nav aria-label="Pages">
        {GROUPS.map((group) => {
          const pages = PAGES.filter((page) => page.group === group && page.isFor(whoami));
          if (pages.length === 0) return null;
          return (
            <div key={group}>
              <p className={styles.group}>{group}</p>
              <ul className={styles.list}>
                {pages.map(({ path, label }) => (
                  <li key={path}>
                    <Link
                      to={path}
                      className={styles.link}
                      activeOptions={{ exact: path === '/', includeSearch: false }}
                    >
                      {label}
                    </Link>
                  </li>
                ))}
              </ul>
            </div>
          );
        })}
      </nav>
      <div className={styles.person}>
        <div>
          <Name text={whoami.principal_id} />
          <small>{whoami.roles.join(', ')}</small>
        </div>
        <Button onClick={() => void leave()}>Sign out</Button>
      </div>
    </header>
  );
}
