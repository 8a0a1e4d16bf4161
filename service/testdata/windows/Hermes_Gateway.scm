# hermes-appliance sha256=fa745a867d31c987d0d6e170046344c3e5d52c21ce3389488551ca4f0019363a home=/var/lib/hermes
["sc.exe","create","Hermes_Gateway","type=","own","start=","demand","error=","normal","obj=","NT SERVICE\\Hermes_Gateway","DisplayName=","Hermes gateway (hermes-gateway)","binPath=","/bin/true gateway run --home /var/lib/hermes"]
["sc.exe","description","Hermes_Gateway","Hermes Agent Gateway - Messaging Platform Integration"]
["sc.exe","failure","Hermes_Gateway","reset=","3600","actions=","restart/5000/restart/5000/restart/5000"]
["sc.exe","failureflag","Hermes_Gateway","1"]
["reg.exe","add","HKLM\\SYSTEM\\CurrentControlSet\\Services\\Hermes_Gateway","/v","Environment","/t","REG_MULTI_SZ","/d","HERMES_HOME=/var/lib/hermes\\0HERMES_SUPERVISED_CHILD=1","/f"]
["icacls.exe","/var/lib/hermes","/grant","NT SERVICE\\Hermes_Gateway:(OI)(CI)M","/Q"]
