# hermes-appliance sha256=e8c34f0d84eeb6c436464b30966dd2d2edd08e93dbdc9f5b01b36ff3bdd81725 home=/var/lib/hermes
["sc.exe","create","Hermes_Gateway","type=","own","start=","demand","error=","normal","obj=","NT SERVICE\\Hermes_Gateway","DisplayName=","Hermes gateway (hermes-gateway)","binPath=","/bin/true gateway run --home /var/lib/hermes"]
["sc.exe","description","Hermes_Gateway","Hermes Agent Gateway - Messaging Platform Integration"]
["sc.exe","failure","Hermes_Gateway","reset=","3600","actions=","restart/5000/restart/5000/restart/5000"]
["sc.exe","failureflag","Hermes_Gateway","1"]
["reg.exe","add","HKLM\\SYSTEM\\CurrentControlSet\\Services\\Hermes_Gateway","/v","Environment","/t","REG_MULTI_SZ","/s","|","/d","HERMES_HOME=/var/lib/hermes|HERMES_SUPERVISED_CHILD=1","/f"]
["icacls.exe","/var/lib/hermes","/grant","NT SERVICE\\Hermes_Gateway:(OI)(CI)M","/Q"]
