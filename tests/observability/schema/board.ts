// What `grafana.json` is made of: the types of Grafana's own package, as one type that a generator can walk.
import {Dashboard} from '@grafana/schema';
import * as stat from './node_modules/@grafana/schema/dist/esm/raw/composable/stat/panelcfg/x/StatPanelCfg_types.gen';
import * as series from './node_modules/@grafana/schema/dist/esm/raw/composable/timeseries/panelcfg/x/TimeSeriesPanelCfg_types.gen';

export interface Board {
  dashboard: Dashboard;
  stat: {options: Partial<stat.Options>};
  timeseries: {options: Partial<series.Options>; custom: Partial<series.FieldConfig>};
}
