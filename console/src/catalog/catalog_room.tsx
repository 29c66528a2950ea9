// The room of the catalog: the explorer, and the page of the object in the address: /console/catalog/default/shop/orders.
import { PanelLeft } from 'lucide-react';
import { useState } from 'react';
import { usePageTitle } from '../app/page_title.ts';
import { useRoomPath, useRoomSearch } from '../app/room_path.tsx';
import { Explorer } from '../explorer/explorer.tsx';
import { IconButton } from '../ui/button.tsx';
import { Split } from '../ui/layout/split.tsx';
import styles from './catalog_room.module.css';
import { CatalogsPage } from './catalogs_page.tsx';
import { ContainerPage } from './container_page.tsx';
import { TableOrViewPage } from './table_or_view_page.tsx';

export function Room() {
  const path = useRoomPath();
  usePageTitle(path.at(-1));
  const { kind } = useRoomSearch();
  const [isExplorerOpen, setIsExplorerOpen] = useState(false);
  return (
    <div className={styles.room} data-explorer={isExplorerOpen ? 'open' : undefined}>
      <Split
        name="explorer"
        direction="row"
        initial={270}
        min={160}
        first={<Explorer onOpened={() => setIsExplorerOpen(false)} />}
        second={
          <>
            <span className={styles.drawer}>
              <IconButton label="Show the explorer" onClick={() => setIsExplorerOpen(!isExplorerOpen)}>
                <PanelLeft aria-hidden />
              </IconButton>
            </span>
            <ObjectAt key={JSON.stringify([kind, path])} path={path} isView={kind === 'view'} />
          </>
        }
      />
    </div>
  );
}

function ObjectAt({ path, isView }: { readonly path: readonly string[]; readonly isView: boolean }) {
  if (path.length === 0) return <CatalogsPage />;
  if (path.length === 1) return <ContainerPage object={{ kind: 'catalog', path }} />;
  if (path.length === 2) return <ContainerPage object={{ kind: 'database', path }} />;
  return <TableOrViewPage path={path.slice(0, 3)} isView={isView} />;
}
